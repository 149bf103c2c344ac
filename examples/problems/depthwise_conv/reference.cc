// For every pixel, the taps inside the image are added channel by channel.
#include <kernelcast/candidate.h>

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const float* x = kc_data<float>(inputs[0]);
  const float* filter = kc_data<float>(inputs[1]);
  float* y = kc_data<float>(outputs[0]);
  const int64_t height = inputs[0].shape[0];
  const int64_t width = inputs[0].shape[1];
  const int64_t channels = inputs[0].shape[2];
  for (int64_t i = 0; i < height; ++i) {
    for (int64_t j = 0; j < width; ++j) {
      float* out = y + (i * width + j) * channels;
      for (int64_t c = 0; c < channels; ++c) out[c] = 0;
      for (int64_t a = 0; a < 3; ++a) {
        const int64_t ii = i + a - 1;
        if (ii < 0 || ii >= height) continue;
        for (int64_t b = 0; b < 3; ++b) {
          const int64_t jj = j + b - 1;
          if (jj < 0 || jj >= width) continue;
          const float* in = x + (ii * width + jj) * channels;
          const float* tap = filter + (a * 3 + b) * channels;
          for (int64_t c = 0; c < channels; ++c) out[c] += in[c] * tap[c];
        }
      }
    }
  }
  return 0;
}
