// Rows in memory order added straight into the output line, ROWS rows a pass.
#include <kernelcast/candidate.h>
#include <string.h>

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const float* __restrict x = kc_data<float>(inputs[0]);
  float* __restrict y = kc_data<float>(outputs[0]);
  const int64_t rows = inputs[0].shape[0];
  const int64_t cols = inputs[0].shape[1];
  memset(y, 0, cols * sizeof(float));
  int64_t r = 0;
  for (; r + ROWS <= rows; r += ROWS) {
    const float* __restrict in = x + r * cols;
    for (int64_t c = 0; c < cols; ++c) {
      float sum = y[c];
#pragma GCC unroll 16
      for (int k = 0; k < ROWS; ++k) sum += in[k * cols + c];
      y[c] = sum;
    }
  }
  for (; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) y[c] += x[r * cols + c];
  }
  return 0;
}
