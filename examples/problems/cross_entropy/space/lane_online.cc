// One pass: every lane keeps a running maximum and a sum relative to it; GROUP vectors are folded
// into the maximum before the sum is rescaled. Lanes are merged at the row's end.
#include <kernelcast/candidate.h>

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
  Vec p = 0.00967554096f + f * 0.00132764713f;
  p = 0.0555071309f + f * p;
  p = 0.240221202f + f * p;
  p = 0.693146944f + f * p;
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
  const int64_t step = LANES * GROUP;
  for (int64_t r = 0; r < rows; ++r) {
    const float* in = x + r * classes;
    Vec top = Splat(in[0]);
    Vec sum = Splat(0);
    int64_t c = 0;
    for (; c + step <= classes; c += step) {
      Vec next = top;
#pragma GCC unroll 16
      for (int g = 0; g < GROUP; ++g) {
        const Vec v = Load(in + c + g * LANES);
        next = v > next ? v : next;
      }
      sum *= Exp(top - next);
      top = next;
#pragma GCC unroll 16
      for (int g = 0; g < GROUP; ++g) sum += Exp(Load(in + c + g * LANES) - top);
    }
    float row_top = top[0];
    for (int i = 1; i < LANES; ++i) row_top = top[i] > row_top ? top[i] : row_top;
    for (int64_t t = c; t < classes; ++t) row_top = in[t] > row_top ? in[t] : row_top;
    sum *= Exp(top - row_top);
    float row_sum = 0;
    for (int i = 0; i < LANES; ++i) row_sum += sum[i];
    for (; c < classes; ++c) row_sum += __builtin_expf(in[c] - row_top);
    loss[r] = __builtin_logf(row_sum) + (row_top - in[labels[r]]);
  }
  return 0;
}
