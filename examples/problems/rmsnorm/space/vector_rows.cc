// ROWS rows together in vectors of LANES floats, UNROLL partial sums a row, so that the loads of
// the weights are shared and the reductions overlap.
#include <kernelcast/candidate.h>

typedef float Vec __attribute__((vector_size(4 * LANES)));
typedef float LooseVec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

template <int kRows>
static void Normalize(const float* __restrict x, const float* __restrict weight,
                      float* __restrict y, int64_t cols) {
  const int64_t step = LANES * UNROLL;
  const int64_t main_cols = cols / step * step;
  const int64_t vector_cols = cols / LANES * LANES;
  float scale[kRows];
  Vec part[kRows][UNROLL] = {};
  for (int64_t c = 0; c < main_cols; c += step) {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
      for (int u = 0; u < UNROLL; ++u) {
        const Vec v = *(const LooseVec*)(x + r * cols + c + u * LANES);
        part[r][u] += v * v;
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    float sum = 0;
    for (int u = 0; u < UNROLL; ++u) {
      for (int i = 0; i < LANES; ++i) sum += part[r][u][i];
    }
    for (int64_t c = main_cols; c < cols; ++c) sum += x[r * cols + c] * x[r * cols + c];
    scale[r] = 1.0f / __builtin_sqrtf(sum / cols + 1e-6f);
  }
  for (int64_t c = 0; c < vector_cols; c += LANES) {
    const Vec w = *(const LooseVec*)(weight + c);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      *(LooseVec*)(y + r * cols + c) = *(const LooseVec*)(x + r * cols + c) * scale[r] * w;
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int64_t c = vector_cols; c < cols; ++c) {
      y[r * cols + c] = x[r * cols + c] * scale[r] * weight[c];
    }
  }
}

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const float* x = kc_data<float>(inputs[0]);
  const float* weight = kc_data<float>(inputs[1]);
  float* y = kc_data<float>(outputs[0]);
  const int64_t rows = inputs[0].shape[0];
  const int64_t cols = inputs[0].shape[1];
  int64_t r = 0;
  for (; r + ROWS <= rows; r += ROWS) Normalize<ROWS>(x + r * cols, weight, y + r * cols, cols);
  for (; r < rows; ++r) Normalize<1>(x + r * cols, weight, y + r * cols, cols);
  return 0;
}
