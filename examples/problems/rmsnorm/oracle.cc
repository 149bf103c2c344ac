// Mean square and scaling in double precision.
#include <kernelcast/candidate.h>
#include <math.h>

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const float* x = kc_data<float>(inputs[0]);
  const float* weight = kc_data<float>(inputs[1]);
  double* y = kc_data<double>(outputs[0]);
  const int64_t rows = inputs[0].shape[0];
  const int64_t cols = inputs[0].shape[1];
  for (int64_t r = 0; r < rows; ++r) {
    double sum = 0;
    for (int64_t c = 0; c < cols; ++c) sum += (double)x[r * cols + c] * x[r * cols + c];
    const double scale = 1.0 / sqrt(sum / cols + 1e-6);
    for (int64_t c = 0; c < cols; ++c) y[r * cols + c] = x[r * cols + c] * scale * weight[c];
  }
  return 0;
}
