// One running total.
#include <kernelcast/candidate.h>

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const float* x = kc_data<float>(inputs[0]);
  float* y = kc_data<float>(outputs[0]);
  const int64_t n = inputs[0].shape[0];
  float total = 0;
  for (int64_t i = 0; i < n; ++i) {
    total += x[i];
    y[i] = total;
  }
  return 0;
}
