// Both sweeps in one pass: the first sweep's result lives in three rotating lines and is consumed
// at once. The grid is walked in strips of STRIP columns, each computing one column beyond its
// edges. ORDER says whether a 3x3 mean is taken down the columns or along the row first.
#include <kernelcast/candidate.h>
#include <stdlib.h>
#include <string.h>

#define down_first 0
#define along_first 1

// One smoothed line of `count` points from lines that start one point further left.
static inline void Smooth(const float* __restrict a, const float* __restrict b,
                          const float* __restrict c, float* __restrict out, float* __restrict line,
                          int64_t count) {
#if ORDER == down_first
  for (int64_t j = 0; j < count + 2; ++j) line[j] = a[j] + 2 * b[j] + c[j];
  for (int64_t j = 0; j < count; ++j) out[j] = (line[j] + 2 * line[j + 1] + line[j + 2]) * 0.0625f;
#else
  (void)line;
  for (int64_t j = 0; j < count; ++j) {
    out[j] = (a[j] + 2 * a[j + 1] + a[j + 2] + 2 * (b[j] + 2 * b[j + 1] + b[j + 2]) + c[j] +
              2 * c[j + 1] + c[j + 2]) *
             0.0625f;
  }
#endif
}

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const float* x = kc_data<float>(inputs[0]);
  float* y = kc_data<float>(outputs[0]);
  const int64_t height = inputs[0].shape[0];
  const int64_t width = inputs[0].shape[1];
  const int64_t strip = STRIP < width ? STRIP : width;
  const int64_t pitch = strip + 4;
  // Lines 0-2: input with two points of margin. 3-5: after one sweep. 6: scratch.
  float* lines = (float*)malloc(7 * pitch * sizeof(float));
  if (lines == nullptr) return 1;
  for (int64_t left = 0; left < width; left += strip) {
    const int64_t count = width - left < strip ? width - left : strip;
    memset(lines, 0, 6 * pitch * sizeof(float));
    for (int64_t i = 0; i <= height + 1; ++i) {
      float* in = lines + i % 3 * pitch;
      if (i < height) {
        for (int64_t j = 0; j < count + 4; ++j) {
          const int64_t column = left + j - 2;
          if (column < 0 || column >= width) in[j] = 0;
        }
        const int64_t begin = left < 2 ? 2 - left : 0;
        const int64_t end = width - left + 2 < count + 4 ? width - left + 2 : count + 4;
        memcpy(in + begin, x + i * width + left + begin - 2, (end - begin) * sizeof(float));
      } else {
        memset(in, 0, pitch * sizeof(float));
      }
      // Row i - 1 after the first sweep, then row i - 2 after the second.
      float* middle = lines + (3 + (i + 2) % 3) * pitch;
      if (i >= 1 && i - 1 < height) {
        Smooth(lines + (i + 1) % 3 * pitch, lines + (i + 2) % 3 * pitch, in, middle,
               lines + 6 * pitch, count + 2);
        if (left == 0) middle[0] = 0;
        if (left + count == width) middle[count + 1] = 0;
      } else {
        memset(middle, 0, pitch * sizeof(float));
      }
      if (i >= 2) {
        Smooth(lines + (3 + i % 3) * pitch, lines + (3 + (i + 1) % 3) * pitch, middle,
               y + (i - 2) * width + left, lines + 6 * pitch, count);
      }
    }
  }
  free(lines);
  return 0;
}
