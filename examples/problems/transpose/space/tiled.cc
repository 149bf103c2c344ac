// Square or oblong tiles, so that the lines a tile touches on the strided side stay cached.
// INNER says which side is walked contiguously inside a tile.
#include <kernelcast/candidate.h>

#define read_rows 0
#define write_rows 1

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const float* __restrict x = kc_data<float>(inputs[0]);
  float* __restrict y = kc_data<float>(outputs[0]);
  const int64_t rows = inputs[0].shape[0];
  const int64_t cols = inputs[0].shape[1];
  for (int64_t r0 = 0; r0 < rows; r0 += TILE_R) {
    const int64_t r1 = r0 + TILE_R < rows ? r0 + TILE_R : rows;
    for (int64_t c0 = 0; c0 < cols; c0 += TILE_C) {
      const int64_t c1 = c0 + TILE_C < cols ? c0 + TILE_C : cols;
#if INNER == read_rows
      for (int64_t r = r0; r < r1; ++r) {
        for (int64_t c = c0; c < c1; ++c) y[c * rows + r] = x[r * cols + c];
      }
#else
      for (int64_t c = c0; c < c1; ++c) {
        for (int64_t r = r0; r < r1; ++r) y[c * rows + r] = x[r * cols + c];
      }
#endif
    }
  }
  return 0;
}
