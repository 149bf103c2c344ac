// Plain loops in three orders: NEST == pixel_outer finishes pixel by pixel, tap_outer adds one tap
// to the whole image at a time, channel_outer treats each channel as a strided plane.
#include <kernelcast/candidate.h>
#include <string.h>

#define pixel_outer 0
#define tap_outer 1
#define channel_outer 2

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const float* __restrict x = kc_data<float>(inputs[0]);
  const float* __restrict filter = kc_data<float>(inputs[1]);
  float* __restrict y = kc_data<float>(outputs[0]);
  const int64_t height = inputs[0].shape[0];
  const int64_t width = inputs[0].shape[1];
  const int64_t channels = inputs[0].shape[2];
#if NEST == pixel_outer
  for (int64_t i = 0; i < height; ++i) {
    for (int64_t j = 0; j < width; ++j) {
      float* __restrict out = y + (i * width + j) * channels;
      memset(out, 0, channels * sizeof(float));
      for (int64_t a = i > 0 ? 0 : 1; a < (i + 1 < height ? 3 : 2); ++a) {
        for (int64_t b = j > 0 ? 0 : 1; b < (j + 1 < width ? 3 : 2); ++b) {
          const float* __restrict in = x + ((i + a - 1) * width + j + b - 1) * channels;
          const float* __restrict tap = filter + (a * 3 + b) * channels;
          for (int64_t c = 0; c < channels; ++c) out[c] += in[c] * tap[c];
        }
      }
    }
  }
#elif NEST == tap_outer
  memset(y, 0, height * width * channels * sizeof(float));
  for (int64_t a = 0; a < 3; ++a) {
    for (int64_t b = 0; b < 3; ++b) {
      const float* __restrict tap = filter + (a * 3 + b) * channels;
      for (int64_t i = a == 0 ? 1 : 0; i < (a == 2 ? height - 1 : height); ++i) {
        for (int64_t j = b == 0 ? 1 : 0; j < (b == 2 ? width - 1 : width); ++j) {
          const float* __restrict in = x + ((i + a - 1) * width + j + b - 1) * channels;
          float* __restrict out = y + (i * width + j) * channels;
          for (int64_t c = 0; c < channels; ++c) out[c] += in[c] * tap[c];
        }
      }
    }
  }
#else
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t i = 0; i < height; ++i) {
      for (int64_t j = 0; j < width; ++j) {
        float sum = 0;
        for (int64_t a = i > 0 ? 0 : 1; a < (i + 1 < height ? 3 : 2); ++a) {
          for (int64_t b = j > 0 ? 0 : 1; b < (j + 1 < width ? 3 : 2); ++b) {
            sum += x[((i + a - 1) * width + j + b - 1) * channels + c] *
                   filter[(a * 3 + b) * channels + c];
          }
        }
        y[(i * width + j) * channels + c] = sum;
      }
    }
  }
#endif
  return 0;
}
