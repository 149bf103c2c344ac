// The two sweeps composed into one 5x5 kernel, [1 4 6 4 1] / 16 down and along, over a grid with
// two zeros around it. A block of BLOCK rows shares the padded lines.
#include <kernelcast/candidate.h>
#include <stdlib.h>
#include <string.h>

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const float* __restrict x = kc_data<float>(inputs[0]);
  float* __restrict y = kc_data<float>(outputs[0]);
  const int64_t height = inputs[0].shape[0];
  const int64_t width = inputs[0].shape[1];
  const int64_t padded = width + 4;
  float* __restrict lines = (float*)calloc((BLOCK + 5) * padded, sizeof(float));
  if (lines == nullptr) return 1;
  float* __restrict down = lines + (BLOCK + 4) * padded;
  for (int64_t top = 0; top < height; top += BLOCK) {
    const int64_t rows = height - top < BLOCK ? height - top : BLOCK;
    for (int64_t k = 0; k < rows + 4; ++k) {
      const int64_t i = top + k - 2;
      float* line = lines + k * padded + 2;
      if (i < 0 || i >= height) {
        memset(line, 0, width * sizeof(float));
      } else {
        memcpy(line, x + i * width, width * sizeof(float));
      }
    }
    for (int64_t k = 0; k < rows; ++k) {
      const float* a = lines + k * padded;
      const float* b = a + padded;
      const float* c = b + padded;
      const float* d = c + padded;
      const float* e = d + padded;
      for (int64_t j = 0; j < padded; ++j) {
        down[j] = (a[j] + e[j] + 4 * (b[j] + d[j]) + 6 * c[j]) * 0.0625f;
      }
      float* out = y + (top + k) * width;
      for (int64_t j = 0; j < width; ++j) {
        out[j] =
            (down[j] + down[j + 4] + 4 * (down[j + 1] + down[j + 3]) + 6 * down[j + 2]) * 0.0625f;
      }
    }
  }
  free(lines);
  return 0;
}
