// Direct sum over the taps inside the image, in double precision.
#include <kernelcast/candidate.h>

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const float* x = kc_data<float>(inputs[0]);
  const float* filter = kc_data<float>(inputs[1]);
  double* y = kc_data<double>(outputs[0]);
  const int64_t height = inputs[0].shape[0];
  const int64_t width = inputs[0].shape[1];
  const int64_t channels = inputs[0].shape[2];
  for (int64_t i = 0; i < height; ++i) {
    for (int64_t j = 0; j < width; ++j) {
      for (int64_t c = 0; c < channels; ++c) {
        double sum = 0;
        for (int64_t a = 0; a < 3; ++a) {
          for (int64_t b = 0; b < 3; ++b) {
            const int64_t ii = i + a - 1;
            const int64_t jj = j + b - 1;
            if (ii < 0 || ii >= height || jj < 0 || jj >= width) continue;
            sum += (double)x[(ii * width + jj) * channels + c] * filter[(a * 3 + b) * channels + c];
          }
        }
        y[(i * width + j) * channels + c] = sum;
      }
    }
  }
  return 0;
}
