// Blocks of BLOCK elements are scanned from zero, four at a time; a second pass adds the totals of
// the blocks before. What does not fill a block is scanned with them at the end.
#include <kernelcast/candidate.h>

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const float* __restrict x = kc_data<float>(inputs[0]);
  float* __restrict y = kc_data<float>(outputs[0]);
  const int64_t n = inputs[0].shape[0];
  const int64_t blocks = n / BLOCK / 4 * 4;
  for (int64_t b = 0; b < blocks; b += 4) {
    const float* in = x + b * BLOCK;
    float* out = y + b * BLOCK;
    float total[4] = {};
    for (int64_t k = 0; k < BLOCK; ++k) {
#pragma GCC unroll 4
      for (int w = 0; w < 4; ++w) {
        total[w] += in[w * BLOCK + k];
        out[w * BLOCK + k] = total[w];
      }
    }
  }
  float before = 0;
  for (int64_t b = 0; b < blocks; ++b) {
    float* out = y + b * BLOCK;
    const float total = out[BLOCK - 1];
    for (int64_t k = 0; k < BLOCK; ++k) out[k] += before;
    before += total;
  }
  float last = blocks > 0 ? y[blocks * BLOCK - 1] - before : 0;
  for (int64_t i = blocks * BLOCK; i < n; ++i) {
    last += x[i];
    y[i] = last;
  }
  return 0;
}
