// Rows in memory order, ROWS of them together, into double-precision accumulators.
// FIRST == float_first adds the rows of a group in float before widening.
#include <kernelcast/candidate.h>
#include <stdlib.h>

#define float_first 0
#define double_first 1

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const float* __restrict x = kc_data<float>(inputs[0]);
  float* __restrict y = kc_data<float>(outputs[0]);
  const int64_t rows = inputs[0].shape[0];
  const int64_t cols = inputs[0].shape[1];
  double* __restrict sum = (double*)calloc(cols, sizeof(double));
  if (sum == nullptr) return 1;
  int64_t r = 0;
  for (; r + ROWS <= rows; r += ROWS) {
    const float* __restrict in = x + r * cols;
    for (int64_t c = 0; c < cols; ++c) {
#if FIRST == float_first
      float part = 0;
#else
      double part = 0;
#endif
#pragma GCC unroll 32
      for (int k = 0; k < ROWS; ++k) part += in[k * cols + c];
      sum[c] += part;
    }
  }
  for (; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) sum[c] += x[r * cols + c];
  }
  for (int64_t c = 0; c < cols; ++c) y[c] = (float)sum[c];
  free(sum);
  return 0;
}
