// Counts one value at a time.
#include <kernelcast/candidate.h>

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const int32_t* x = kc_data<int32_t>(inputs[0]);
  int32_t* y = kc_data<int32_t>(outputs[0]);
  const int64_t n = inputs[0].shape[0];
  const int64_t bins = outputs[0].shape[0];
  for (int64_t b = 0; b < bins; ++b) y[b] = 0;
  for (int64_t i = 0; i < n; ++i) ++y[x[i]];
  return 0;
}
