// The scale of every row is computed first and kept; a second sweep over the whole matrix applies
// them in tiles of TILE columns, so that a tile's weights stay in registers or the nearest cache.
#include <kernelcast/candidate.h>
#include <stdlib.h>

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const float* __restrict x = kc_data<float>(inputs[0]);
  const float* __restrict weight = kc_data<float>(inputs[1]);
  float* __restrict y = kc_data<float>(outputs[0]);
  const int64_t rows = inputs[0].shape[0];
  const int64_t cols = inputs[0].shape[1];
  float* __restrict scale = (float*)malloc(rows * sizeof(float));
  if (scale == nullptr) return 1;
  for (int64_t r = 0; r < rows; ++r) {
    const float* in = x + r * cols;
    float part[PARTS] = {};
    int64_t c = 0;
    for (; c + PARTS <= cols; c += PARTS) {
      for (int p = 0; p < PARTS; ++p) part[p] += in[c + p] * in[c + p];
    }
    for (; c < cols; ++c) part[0] += in[c] * in[c];
    float sum = 0;
    for (int p = 0; p < PARTS; ++p) sum += part[p];
    scale[r] = 1.0f / __builtin_sqrtf(sum / cols + 1e-6f);
  }
  for (int64_t begin = 0; begin < cols; begin += TILE) {
    const int64_t end = cols - begin < TILE ? cols : begin + TILE;
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = begin; c < end; ++c)
        y[r * cols + c] = x[r * cols + c] * scale[r] * weight[c];
    }
  }
  free(scale);
  return 0;
}
