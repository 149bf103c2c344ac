// Tiles go through a small local buffer with padded lines: contiguous reads into it, contiguous
// writes out of it.
#include <kernelcast/candidate.h>

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const float* __restrict x = kc_data<float>(inputs[0]);
  float* __restrict y = kc_data<float>(outputs[0]);
  const int64_t rows = inputs[0].shape[0];
  const int64_t cols = inputs[0].shape[1];
  float stage[TILE][TILE + PAD];
  for (int64_t r0 = 0; r0 < rows; r0 += TILE) {
    for (int64_t c0 = 0; c0 < cols; c0 += TILE) {
      const int64_t height = rows - r0 < TILE ? rows - r0 : TILE;
      const int64_t width = cols - c0 < TILE ? cols - c0 : TILE;
      for (int64_t r = 0; r < height; ++r) {
        for (int64_t c = 0; c < width; ++c) stage[r][c] = x[(r0 + r) * cols + c0 + c];
      }
      for (int64_t c = 0; c < width; ++c) {
        for (int64_t r = 0; r < height; ++r) y[(c0 + c) * rows + r0 + r] = stage[r][c];
      }
    }
  }
  return 0;
}
