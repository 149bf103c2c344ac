// First the totals of blocks of BLOCK elements, then their prefix, then WAYS neighbouring blocks
// are scanned side by side from their own offsets.
#include <kernelcast/candidate.h>
#include <stdlib.h>

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const float* __restrict x = kc_data<float>(inputs[0]);
  float* __restrict y = kc_data<float>(outputs[0]);
  const int64_t n = inputs[0].shape[0];
  const int64_t blocks = n / BLOCK;
  float* __restrict offset = (float*)malloc((blocks + 1) * sizeof(float));
  if (offset == nullptr) return 1;
  offset[0] = 0;
  for (int64_t b = 0; b < blocks; ++b) {
    const float* in = x + b * BLOCK;
    float part[16] = {};
    for (int64_t k = 0; k < BLOCK; k += 16) {
      for (int i = 0; i < 16; ++i) part[i] += in[k + i];
    }
    float total = 0;
    for (int i = 0; i < 16; ++i) total += part[i];
    offset[b + 1] = offset[b] + total;
  }
  int64_t b = 0;
  for (; b + WAYS <= blocks; b += WAYS) {
    float total[WAYS];
    for (int w = 0; w < WAYS; ++w) total[w] = offset[b + w];
    for (int64_t k = 0; k < BLOCK; ++k) {
#pragma GCC unroll 16
      for (int w = 0; w < WAYS; ++w) {
        total[w] += x[(b + w) * BLOCK + k];
        y[(b + w) * BLOCK + k] = total[w];
      }
    }
  }
  float total = offset[b];
  for (int64_t i = b * BLOCK; i < n; ++i) y[i] = total += x[i];
  free(offset);
  return 0;
}
