// Blocks of ROWS output rows: the first sweep's rows for a block, one more above and below, go into a
// small buffer with zero edges, from which the second sweep writes the output. Vectors of LANES
// columns; MEAN says whether a 3x3 mean goes down the columns or along the rows first.
#include <kernelcast/candidate.h>
#include <stdlib.h>
#include <string.h>

#define down_first 0
#define along_first 1

typedef float Vec __attribute__((vector_size(4 * LANES)));
typedef float LooseVec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

static inline __attribute__((always_inline)) Vec Load(const float* p) {
  return *(const LooseVec*)p;
}

// out[j] for begin <= j < end from the columns j - 1, j and j + 1 of three lines.
static inline void Smooth(const float* a, const float* b, const float* c, float* out, int64_t begin,
                          int64_t end) {
  int64_t j = begin;
  for (; j + LANES <= end; j += LANES) {
#if MEAN == down_first
    const Vec left = Load(a + j - 1) + 2 * Load(b + j - 1) + Load(c + j - 1);
    const Vec here = Load(a + j) + 2 * Load(b + j) + Load(c + j);
    const Vec right = Load(a + j + 1) + 2 * Load(b + j + 1) + Load(c + j + 1);
    *(LooseVec*)(out + j) = (left + 2 * here + right) * 0.0625f;
#else
    const Vec above = Load(a + j - 1) + 2 * Load(a + j) + Load(a + j + 1);
    const Vec here = Load(b + j - 1) + 2 * Load(b + j) + Load(b + j + 1);
    const Vec below = Load(c + j - 1) + 2 * Load(c + j) + Load(c + j + 1);
    *(LooseVec*)(out + j) = (above + 2 * here + below) * 0.0625f;
#endif
  }
  for (; j < end; ++j) {
    out[j] = (a[j - 1] + 2 * b[j - 1] + c[j - 1] + 2 * (a[j] + 2 * b[j] + c[j]) + a[j + 1] +
              2 * b[j + 1] + c[j + 1]) *
             0.0625f;
  }
}

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const float* x = kc_data<float>(inputs[0]);
  float* y = kc_data<float>(outputs[0]);
  const int64_t height = inputs[0].shape[0];
  const int64_t width = inputs[0].shape[1];
  const int64_t pitch = width + 2;
  float* middle = (float*)calloc((ROWS + 3) * pitch, sizeof(float));
  if (middle == nullptr) return 1;
  const float* zeros = middle + (ROWS + 2) * pitch;
  for (int64_t top = 0; top < height; top += ROWS) {
    const int64_t rows = height - top < ROWS ? height - top : ROWS;
    for (int64_t k = 0; k < rows + 2; ++k) {
      const int64_t i = top + k - 1;
      float* out = middle + k * pitch + 1;
      if (i < 0 || i >= height) {
        memset(out, 0, width * sizeof(float));
        continue;
      }
      const float* b = x + i * width;
      const float* a = i > 0 ? b - width : zeros;
      const float* c = i + 1 < height ? b + width : zeros;
      Smooth(a, b, c, out, 1, width - 1);
      const int64_t last = width - 1;
      float left = 2 * (a[0] + 2 * b[0] + c[0]);
      float right = 2 * (a[last] + 2 * b[last] + c[last]);
      if (width > 1) {
        left += a[1] + 2 * b[1] + c[1];
        right += a[last - 1] + 2 * b[last - 1] + c[last - 1];
      }
      out[0] = left * 0.0625f;
      out[last] = right * 0.0625f;
    }
    for (int64_t k = 0; k < rows; ++k) {
      const float* a = middle + k * pitch + 1;
      Smooth(a, a + pitch, a + 2 * pitch, y + (top + k) * width, 0, width);
    }
  }
  free(middle);
  return 0;
}
