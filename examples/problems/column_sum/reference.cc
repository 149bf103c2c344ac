// Rows in memory order into one double-precision accumulator a column.
#include <kernelcast/candidate.h>
#include <stdlib.h>

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const float* x = kc_data<float>(inputs[0]);
  float* y = kc_data<float>(outputs[0]);
  const int64_t rows = inputs[0].shape[0];
  const int64_t cols = inputs[0].shape[1];
  double* sum = (double*)calloc(cols, sizeof(double));
  if (sum == nullptr) return 1;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) sum[c] += x[r * cols + c];
  }
  for (int64_t c = 0; c < cols; ++c) y[c] = (float)sum[c];
  free(sum);
  return 0;
}
