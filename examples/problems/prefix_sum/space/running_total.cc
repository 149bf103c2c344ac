// One running total in ACC precision; each group of GROUP elements is summed locally first, so that
// only one addition a group waits for the previous group.
#include <kernelcast/candidate.h>

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const float* __restrict x = kc_data<float>(inputs[0]);
  float* __restrict y = kc_data<float>(outputs[0]);
  const int64_t n = inputs[0].shape[0];
  ACC total = 0;
  int64_t i = 0;
  for (; i + GROUP <= n; i += GROUP) {
    ACC local[GROUP];
    local[0] = x[i];
#pragma GCC unroll 16
    for (int g = 1; g < GROUP; ++g) local[g] = local[g - 1] + x[i + g];
#pragma GCC unroll 16
    for (int g = 0; g < GROUP; ++g) y[i + g] = (float)(total + local[g]);
    total += local[GROUP - 1];
  }
  for (; i < n; ++i) {
    total += x[i];
    y[i] = (float)total;
  }
  return 0;
}
