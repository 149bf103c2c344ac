// Vector passes that multiply the sum of squares by the reciprocal of the row length, a constant,
// in place of a division.
#include <kernelcast/candidate.h>

#define RECIPROCAL (1.0f / 1024)

typedef float Vec __attribute__((vector_size(4 * LANES)));
typedef float LooseVec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const float* __restrict x = kc_data<float>(inputs[0]);
  const float* __restrict weight = kc_data<float>(inputs[1]);
  float* __restrict y = kc_data<float>(outputs[0]);
  const int64_t rows = inputs[0].shape[0];
  const int64_t cols = inputs[0].shape[1];
  const int64_t main_cols = cols / (LANES * UNROLL) * (LANES * UNROLL);
  for (int64_t r = 0; r < rows; ++r) {
    const float* in = x + r * cols;
    float* out = y + r * cols;
    Vec part[UNROLL] = {};
    for (int64_t c = 0; c < main_cols; c += LANES * UNROLL) {
#pragma GCC unroll 8
      for (int u = 0; u < UNROLL; ++u) {
        const Vec v = *(const LooseVec*)(in + c + u * LANES);
        part[u] += v * v;
      }
    }
    float sum = 0;
    for (int u = 0; u < UNROLL; ++u) {
      for (int i = 0; i < LANES; ++i) sum += part[u][i];
    }
    for (int64_t c = main_cols; c < cols; ++c) sum += in[c] * in[c];
    const float scale = 1.0f / __builtin_sqrtf(sum * RECIPROCAL + 1e-6f);
    for (int64_t c = 0; c < cols; ++c) out[c] = in[c] * scale * weight[c];
  }
  return 0;
}
