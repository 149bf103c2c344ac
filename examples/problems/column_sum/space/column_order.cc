// One pass down the matrix for each group of WIDTH columns, with the group's double-precision sums
// in registers.
#include <kernelcast/candidate.h>

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const float* __restrict x = kc_data<float>(inputs[0]);
  float* __restrict y = kc_data<float>(outputs[0]);
  const int64_t rows = inputs[0].shape[0];
  const int64_t cols = inputs[0].shape[1];
  int64_t c = 0;
  for (; c + WIDTH <= cols; c += WIDTH) {
    double sum[WIDTH] = {};
    for (int64_t r = 0; r < rows; ++r) {
#pragma GCC unroll 64
      for (int w = 0; w < WIDTH; ++w) sum[w] += x[r * cols + c + w];
    }
    for (int w = 0; w < WIDTH; ++w) y[c + w] = (float)sum[w];
  }
  for (; c < cols; ++c) {
    double sum = 0;
    for (int64_t r = 0; r < rows; ++r) sum += x[r * cols + c];
    y[c] = (float)sum;
  }
  return 0;
}
