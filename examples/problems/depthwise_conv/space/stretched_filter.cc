// Each filter row is repeated along the whole image row, so that a row of the output is a sum of
// long contiguous products. Repeats are zero where a tap would leave the row; FUSE products go into
// one pass over the output row.
#include <kernelcast/candidate.h>
#include <stdlib.h>
#include <string.h>

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const float* __restrict x = kc_data<float>(inputs[0]);
  const float* __restrict filter = kc_data<float>(inputs[1]);
  float* __restrict y = kc_data<float>(outputs[0]);
  const int64_t height = inputs[0].shape[0];
  const int64_t width = inputs[0].shape[1];
  const int64_t channels = inputs[0].shape[2];
  const int64_t line = width * channels;
  const int64_t pitch = line + 2 * channels;
  float* __restrict taps = (float*)malloc((9 * line + 3 * pitch) * sizeof(float));
  if (taps == nullptr) return 1;
  float* __restrict rows = taps + 9 * line;
  for (int64_t t = 0; t < 9; ++t) {
    for (int64_t j = 0; j < width; ++j) {
      memcpy(taps + t * line + j * channels, filter + t * channels, channels * sizeof(float));
    }
  }
  memset(rows, 0, 3 * pitch * sizeof(float));
  for (int64_t i = 0; i <= height; ++i) {
    float* in = rows + i % 3 * pitch + channels;
    if (i < height) {
      memcpy(in, x + i * line, line * sizeof(float));
    } else {
      memset(in, 0, line * sizeof(float));
    }
    if (i == 0) continue;
    float* __restrict out = y + (i - 1) * line;
    const float* __restrict lines[3] = {rows + (i + 1) % 3 * pitch, rows + (i + 2) % 3 * pitch,
                                        rows + i % 3 * pitch};
#if FUSE == 9
    for (int64_t k = 0; k < line; ++k) {
      float sum = 0;
#pragma GCC unroll 9
      for (int t = 0; t < 9; ++t) sum += lines[t / 3][k + t % 3 * channels] * taps[t * line + k];
      out[k] = sum;
    }
#else
    memset(out, 0, line * sizeof(float));
    for (int64_t t = 0; t < 9; t += FUSE) {
      for (int64_t k = 0; k < line; ++k) {
        float sum = out[k];
#pragma GCC unroll 3
        for (int f = 0; f < FUSE; ++f) {
          sum += lines[(t + f) / 3][k + (t + f) % 3 * channels] * taps[(t + f) * line + k];
        }
        out[k] = sum;
      }
    }
#endif
  }
  free(taps);
  return 0;
}
