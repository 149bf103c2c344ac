// Two passes: exponentials straight from the input with their sum, then one scaling pass. Vectors
// of LANES floats, UNROLL in flight, polynomial exp.
#include <kernelcast/candidate.h>
#include <string.h>

typedef float Vec __attribute__((vector_size(4 * LANES)));
typedef int32_t IntVec __attribute__((vector_size(4 * LANES)));
typedef float LooseVec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

#define INLINE static inline __attribute__((always_inline))

INLINE Vec Load(const float* p) { return *(const LooseVec*)p; }
INLINE void Store(float* p, Vec v) { *(LooseVec*)p = v; }
INLINE Vec Splat(float v) { return v - Vec{}; }

INLINE Vec Exp(Vec x) {
  Vec t = x * 1.44269504f;
  t = t > -126.0f ? t : Splat(-126.0f);
  t = t < 128.0f ? t : Splat(128.0f);
  const IntVec n = __builtin_convertvector(t, IntVec);
  const Vec f = t - __builtin_convertvector(n, Vec);
  Vec p = 0.00133999309f + f * 0.000153458110f;
  p = 0.00961848907f + f * p;
  p = 0.0555032864f + f * p;
  p = 0.240226463f + f * p;
  p = 0.693147182f + f * p;
  p = 1.0f + f * p;
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
  for (int64_t r = 0; r < rows; ++r) {
    const float* __restrict in = x + r * cols;
    float* __restrict out = y + r * cols;
    Vec sum[UNROLL];
    for (int u = 0; u < UNROLL; ++u) sum[u] = Splat(0);
    for (int64_t c = 0; c < unrolled_cols; c += step) {
#pragma GCC unroll 8
      for (int u = 0; u < UNROLL; ++u) {
        const Vec e = Exp(Load(in + c + u * LANES));
        Store(out + c + u * LANES, e);
        sum[u] += e;
      }
    }
    for (int u = 1; u < UNROLL; ++u) sum[0] += sum[u];
    float row_sum = 0;
    for (int i = 0; i < LANES; ++i) row_sum += sum[0][i];
    for (int64_t c = unrolled_cols; c < cols; c += LANES) {
      const int64_t count = cols - c < LANES ? cols - c : LANES;
      Vec v = Splat(0);
      memcpy(&v, in + c, count * sizeof(float));
      v = Exp(v);
      memcpy(out + c, &v, count * sizeof(float));
      for (int i = 0; i < count; ++i) row_sum += v[i];
    }
    const float scale = 1.0f / row_sum;
    for (int64_t c = 0; c < cols; ++c) out[c] *= scale;
  }
  return 0;
}
