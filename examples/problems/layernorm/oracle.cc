// Mean, variance about the mean, and affine map, all in double precision.
#include <kernelcast/candidate.h>
#include <math.h>

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const float* x = kc_data<float>(inputs[0]);
  const float* gamma = kc_data<float>(inputs[1]);
  const float* beta = kc_data<float>(inputs[2]);
  double* y = kc_data<double>(outputs[0]);
  const int64_t rows = inputs[0].shape[0];
  const int64_t cols = inputs[0].shape[1];
  for (int64_t r = 0; r < rows; ++r) {
    double mean = 0;
    for (int64_t c = 0; c < cols; ++c) mean += x[r * cols + c];
    mean /= cols;
    double variance = 0;
    for (int64_t c = 0; c < cols; ++c) {
      const double d = x[r * cols + c] - mean;
      variance += d * d;
    }
    variance /= cols;
    for (int64_t c = 0; c < cols; ++c) {
      y[r * cols + c] = (x[r * cols + c] - mean) / sqrt(variance + 1e-5) * gamma[c] + beta[c];
    }
  }
  return 0;
}
