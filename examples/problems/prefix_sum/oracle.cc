// Running total in double precision.
#include <kernelcast/candidate.h>

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const float* x = kc_data<float>(inputs[0]);
  double* y = kc_data<double>(outputs[0]);
  const int64_t n = inputs[0].shape[0];
  double total = 0;
  for (int64_t i = 0; i < n; ++i) y[i] = total += x[i];
  return 0;
}
