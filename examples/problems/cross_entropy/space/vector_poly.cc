// Maximum and sum passes in vectors of LANES floats, UNROLL in flight, with a polynomial exp of
// degree DEGREE. The ragged end of a row repeats the row's first element in the maximum pass and
// is masked in the sum.
#include <kernelcast/candidate.h>
#include <string.h>

typedef float Vec __attribute__((vector_size(4 * LANES)));
typedef int32_t IntVec __attribute__((vector_size(4 * LANES)));
typedef float LooseVec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

#define INLINE static inline __attribute__((always_inline))

INLINE Vec Load(const float* p) { return *(const LooseVec*)p; }
INLINE Vec Splat(float v) { return v - Vec{}; }

// exp(x) for x <= 0, held at about 1e-38 from below.
INLINE Vec Exp(Vec x) {
  Vec t = x * 1.44269504f;
  t = t > -126.0f ? t : Splat(-126.0f);
  const IntVec n = __builtin_convertvector(t - 0.5f, IntVec);
  const Vec f = t - __builtin_convertvector(n, Vec);
#if DEGREE == 3
  Vec p = 0.242611125f + f * 0.0551716648f;
  p = 0.693260968f + f * p;
#elif DEGREE == 5
  Vec p = 0.00967554096f + f * 0.00132764713f;
  p = 0.0555071309f + f * p;
  p = 0.240221202f + f * p;
  p = 0.693146944f + f * p;
#else
  Vec p = 0.00133999309f + f * 0.000153458110f;
  p = 0.00961848907f + f * p;
  p = 0.0555032864f + f * p;
  p = 0.240226463f + f * p;
  p = 0.693147182f + f * p;
#endif
  p = 1.0f + f * p;
  return p * (Vec)((n + 127) << 23);
}

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const float* __restrict x = kc_data<float>(inputs[0]);
  const int32_t* __restrict labels = kc_data<int32_t>(inputs[1]);
  float* __restrict loss = kc_data<float>(outputs[0]);
  const int64_t rows = inputs[0].shape[0];
  const int64_t classes = inputs[0].shape[1];
  const int64_t step = LANES * UNROLL;
  for (int64_t r = 0; r < rows; ++r) {
    const float* in = x + r * classes;
    Vec top[UNROLL];
    Vec sum[UNROLL];
    for (int u = 0; u < UNROLL; ++u) {
      top[u] = Splat(in[0]);
      sum[u] = Splat(0);
    }
    int64_t c = 0;
    for (; c + step <= classes; c += step) {
#pragma GCC unroll 8
      for (int u = 0; u < UNROLL; ++u) {
        const Vec v = Load(in + c + u * LANES);
        top[u] = v > top[u] ? v : top[u];
      }
    }
    for (; c < classes; c += LANES) {
      const int64_t count = classes - c < LANES ? classes - c : LANES;
      Vec v = Splat(in[0]);
      memcpy(&v, in + c, count * sizeof(float));
      top[0] = v > top[0] ? v : top[0];
    }
    for (int u = 1; u < UNROLL; ++u) top[0] = top[u] > top[0] ? top[u] : top[0];
    float row_top = top[0][0];
    for (int i = 1; i < LANES; ++i) row_top = top[0][i] > row_top ? top[0][i] : row_top;

    for (c = 0; c + step <= classes; c += step) {
#pragma GCC unroll 8
      for (int u = 0; u < UNROLL; ++u) sum[u] += Exp(Load(in + c + u * LANES) - row_top);
    }
    for (int u = 1; u < UNROLL; ++u) sum[0] += sum[u];
    float row_sum = 0;
    for (int i = 0; i < LANES; ++i) row_sum += sum[0][i];
    for (; c < classes; c += LANES) {
      const int64_t count = classes - c < LANES ? classes - c : LANES;
      Vec v = Splat(row_top);
      memcpy(&v, in + c, count * sizeof(float));
      v = Exp(v - row_top);
      for (int i = 0; i < count; ++i) row_sum += v[i];
    }
    loss[r] = __builtin_logf(row_sum) + (row_top - in[labels[r]]);
  }
  return 0;
}
