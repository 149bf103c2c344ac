// Three passes a row (maximum, exponentials and sum, scaling) with library expf.
// Each reduction keeps UNROLL independent accumulators; SCALE picks division or a reciprocal.
#include <kernelcast/candidate.h>
#include <math.h>

#define divide 0
#define reciprocal 1

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const float* x = kc_data<float>(inputs[0]);
  float* y = kc_data<float>(outputs[0]);
  const int64_t rows = inputs[0].shape[0];
  const int64_t cols = inputs[0].shape[1];
  const int64_t main_cols = cols / UNROLL * UNROLL;
  for (int64_t r = 0; r < rows; ++r) {
    const float* __restrict in = x + r * cols;
    float* __restrict out = y + r * cols;
    float top[UNROLL];
    float sum[UNROLL];
    for (int u = 0; u < UNROLL; ++u) {
      top[u] = in[0];
      sum[u] = 0;
    }
    for (int64_t c = 0; c < main_cols; c += UNROLL) {
#pragma GCC unroll 16
      for (int u = 0; u < UNROLL; ++u) top[u] = in[c + u] > top[u] ? in[c + u] : top[u];
    }
    for (int64_t c = main_cols; c < cols; ++c) top[0] = in[c] > top[0] ? in[c] : top[0];
    float row_top = top[0];
    for (int u = 1; u < UNROLL; ++u) row_top = top[u] > row_top ? top[u] : row_top;

    for (int64_t c = 0; c < main_cols; c += UNROLL) {
#pragma GCC unroll 16
      for (int u = 0; u < UNROLL; ++u) {
        const float e = expf(in[c + u] - row_top);
        out[c + u] = e;
        sum[u] += e;
      }
    }
    for (int64_t c = main_cols; c < cols; ++c) {
      out[c] = expf(in[c] - row_top);
      sum[0] += out[c];
    }
    float row_sum = sum[0];
    for (int u = 1; u < UNROLL; ++u) row_sum += sum[u];

#if SCALE == reciprocal
    const float scale = 1.0f / row_sum;
    for (int64_t c = 0; c < cols; ++c) out[c] *= scale;
#else
    for (int64_t c = 0; c < cols; ++c) out[c] /= row_sum;
#endif
  }
  return 0;
}
