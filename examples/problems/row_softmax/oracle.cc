// Stable softmax in double precision, one row at a time.
#include <kernelcast/candidate.h>
#include <math.h>

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const float* x = kc_data<float>(inputs[0]);
  double* y = kc_data<double>(outputs[0]);
  const int64_t rows = inputs[0].shape[0];
  const int64_t cols = inputs[0].shape[1];
  for (int64_t r = 0; r < rows; ++r) {
    double top = x[r * cols];
    for (int64_t c = 1; c < cols; ++c) top = fmax(top, (double)x[r * cols + c]);
    double sum = 0;
    for (int64_t c = 0; c < cols; ++c) sum += exp((double)x[r * cols + c] - top);
    for (int64_t c = 0; c < cols; ++c) y[r * cols + c] = exp((double)x[r * cols + c] - top) / sum;
  }
  return 0;
}
