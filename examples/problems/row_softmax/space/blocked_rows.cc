// ROWS rows advance together, so that their reductions overlap, in LANES-wide vectors with a
// polynomial exp. KEEP == 1 stores the exponentials and scales them in a third pass; KEEP == 0
// only sums in the second pass and computes the exponentials again in the third.
#include <kernelcast/candidate.h>
#include <string.h>

static_assert(ROWS * LANES <= 64, "the accumulators must stay in registers");

typedef float Vec __attribute__((vector_size(4 * LANES)));
typedef int32_t IntVec __attribute__((vector_size(4 * LANES)));
typedef float LooseVec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

#define INLINE static inline __attribute__((always_inline))

INLINE Vec Load(const float* p) { return *(const LooseVec*)p; }
INLINE void Store(float* p, Vec v) { *(LooseVec*)p = v; }
INLINE Vec Splat(float v) { return v - Vec{}; }

// exp(x) for x <= 0, held at about 1e-38 from below.
INLINE Vec Exp(Vec x) {
  Vec t = x * 1.44269504f;
  t = t > -126.0f ? t : Splat(-126.0f);
  const IntVec n = __builtin_convertvector(t - 0.5f, IntVec);
  const Vec f = t - __builtin_convertvector(n, Vec);
  Vec p = 0.00967554096f + f * 0.00132764713f;
  p = 0.0555071309f + f * p;
  p = 0.240221202f + f * p;
  p = 0.693146944f + f * p;
  p = 1.0f + f * p;
  return p * (Vec)((n + 127) << 23);
}

template <int kRows>
static void SoftmaxRows(const float* __restrict in, float* __restrict out, int64_t cols) {
  const int64_t vector_cols = cols / LANES * LANES;
  const int64_t rest = cols - vector_cols;
  Vec top[kRows];
  Vec sum[kRows];
  float row_top[kRows];
  float scale[kRows];
  for (int k = 0; k < kRows; ++k) {
    top[k] = Splat(in[k * cols]);
    memcpy(&top[k], in + k * cols + vector_cols, rest * sizeof(float));
    sum[k] = Splat(0);
  }
  for (int64_t c = 0; c < vector_cols; c += LANES) {
#pragma GCC unroll 16
    for (int k = 0; k < kRows; ++k) {
      const Vec v = Load(in + k * cols + c);
      top[k] = v > top[k] ? v : top[k];
    }
  }
  for (int k = 0; k < kRows; ++k) {
    row_top[k] = top[k][0];
    for (int i = 1; i < LANES; ++i) row_top[k] = top[k][i] > row_top[k] ? top[k][i] : row_top[k];
  }
  for (int64_t c = 0; c < vector_cols; c += LANES) {
#pragma GCC unroll 16
    for (int k = 0; k < kRows; ++k) {
      const Vec e = Exp(Load(in + k * cols + c) - row_top[k]);
      if (KEEP) Store(out + k * cols + c, e);
      sum[k] += e;
    }
  }
  for (int k = 0; k < kRows; ++k) {
    Vec last = Splat(row_top[k]);
    memcpy(&last, in + k * cols + vector_cols, rest * sizeof(float));
    last = Exp(last - row_top[k]);
    float row_sum = 0;
    for (int i = 0; i < LANES; ++i) row_sum += sum[k][i];
    for (int i = 0; i < rest; ++i) row_sum += last[i];
    scale[k] = 1.0f / row_sum;
    last *= scale[k];
    memcpy(out + k * cols + vector_cols, &last, rest * sizeof(float));
  }
  for (int64_t c = 0; c < vector_cols; c += LANES) {
#pragma GCC unroll 16
    for (int k = 0; k < kRows; ++k) {
      const Vec e = KEEP ? Load(out + k * cols + c) : Exp(Load(in + k * cols + c) - row_top[k]);
      Store(out + k * cols + c, e * scale[k]);
    }
  }
}

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const float* x = kc_data<float>(inputs[0]);
  float* y = kc_data<float>(outputs[0]);
  const int64_t rows = inputs[0].shape[0];
  const int64_t cols = inputs[0].shape[1];
  int64_t r = 0;
  for (; r + ROWS <= rows; r += ROWS) SoftmaxRows<ROWS>(x + r * cols, y + r * cols, cols);
  for (; r < rows; ++r) SoftmaxRows<1>(x + r * cols, y + r * cols, cols);
  return 0;
}
