// Three passes with vector extensions: LANES-wide vectors, UNROLL vectors in flight, and exp
// as 2^n * 2^f with a minimax polynomial of degree DEGREE for 2^f. Columns that do not fill
// a vector go through a small padded buffer.
#include <kernelcast/candidate.h>
#include <string.h>

typedef float Vec __attribute__((vector_size(4 * LANES)));
typedef int32_t IntVec __attribute__((vector_size(4 * LANES)));
typedef float LooseVec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

#define INLINE static inline __attribute__((always_inline))

INLINE Vec Load(const float* p) { return *(const LooseVec*)p; }
INLINE void Store(float* p, Vec v) { *(LooseVec*)p = v; }
INLINE Vec Splat(float v) { return v - Vec{}; }

// exp(x) for x <= 0; below 2^-126 the result is held at about 1e-38.
INLINE Vec Exp(Vec x) {
  Vec t = x * 1.44269504f;
  t = t > -126.0f ? t : Splat(-126.0f);
  const IntVec n = __builtin_convertvector(t - 0.5f, IntVec);
  const Vec f = t - __builtin_convertvector(n, Vec);
#if DEGREE == 3
  Vec p = 0.242611125f + f * 0.0551716648f;
  p = 0.693260968f + f * p;
  p = 0.999928057f + f * p;
#elif DEGREE == 4
  Vec p = 0.0559178591f + f * 0.00957010128f;
  p = 0.240247443f + f * p;
  p = 0.693121791f + f * p;
  p = 0.999999285f + f * p;
#elif DEGREE == 5
  Vec p = 0.00967554096f + f * 0.00132764713f;
  p = 0.0555071309f + f * p;
  p = 0.240221202f + f * p;
  p = 0.693146944f + f * p;
  p = 1.0f + f * p;
#else
  Vec p = 0.00133999309f + f * 0.000153458110f;
  p = 0.00961848907f + f * p;
  p = 0.0555032864f + f * p;
  p = 0.240226463f + f * p;
  p = 0.693147182f + f * p;
  p = 1.0f + f * p;
#endif
  return p * (Vec)((n + 127) << 23);
}

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const float* x = kc_data<float>(inputs[0]);
  float* y = kc_data<float>(outputs[0]);
  const int64_t rows = inputs[0].shape[0];
  const int64_t cols = inputs[0].shape[1];
  const int64_t step = LANES * UNROLL;
  const int64_t unrolled_cols = cols / step * step;
  const int64_t vector_cols = cols / LANES * LANES;
  const int64_t rest = cols - vector_cols;
  for (int64_t r = 0; r < rows; ++r) {
    const float* __restrict in = x + r * cols;
    float* __restrict out = y + r * cols;
    Vec top[UNROLL];
    Vec sum[UNROLL];
    for (int u = 0; u < UNROLL; ++u) {
      top[u] = Splat(in[0]);
      sum[u] = Splat(0);
    }
    Vec last = Splat(in[0]);
    memcpy(&last, in + vector_cols, rest * sizeof(float));

    for (int64_t c = 0; c < unrolled_cols; c += step) {
#pragma GCC unroll 8
      for (int u = 0; u < UNROLL; ++u) {
        const Vec v = Load(in + c + u * LANES);
        top[u] = v > top[u] ? v : top[u];
      }
    }
    for (int64_t c = unrolled_cols; c < vector_cols; c += LANES) {
      const Vec v = Load(in + c);
      top[0] = v > top[0] ? v : top[0];
    }
    top[0] = last > top[0] ? last : top[0];
    for (int u = 1; u < UNROLL; ++u) top[0] = top[u] > top[0] ? top[u] : top[0];
    float row_top = top[0][0];
    for (int i = 1; i < LANES; ++i) row_top = top[0][i] > row_top ? top[0][i] : row_top;

    for (int64_t c = 0; c < unrolled_cols; c += step) {
#pragma GCC unroll 8
      for (int u = 0; u < UNROLL; ++u) {
        const Vec e = Exp(Load(in + c + u * LANES) - row_top);
        Store(out + c + u * LANES, e);
        sum[u] += e;
      }
    }
    for (int64_t c = unrolled_cols; c < vector_cols; c += LANES) {
      const Vec e = Exp(Load(in + c) - row_top);
      Store(out + c, e);
      sum[0] += e;
    }
    for (int u = 1; u < UNROLL; ++u) sum[0] += sum[u];
    last = Exp(last - row_top);
    float row_sum = 0;
    for (int i = 0; i < LANES; ++i) row_sum += sum[0][i];
    for (int i = 0; i < rest; ++i) row_sum += last[i];

    const float scale = 1.0f / row_sum;
    for (int64_t c = 0; c < vector_cols; c += LANES) Store(out + c, Load(out + c) * scale);
    last *= scale;
    memcpy(out + vector_cols, &last, rest * sizeof(float));
  }
  return 0;
}
