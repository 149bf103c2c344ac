// Each row is copied into an aligned scratch line whose length is rounded up to whole vectors and
// whose end is cleared; both passes then run over whole vectors only.
#include <kernelcast/candidate.h>
#include <stdlib.h>
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
  const int64_t padded = (classes + LANES * UNROLL - 1) / (LANES * UNROLL) * (LANES * UNROLL);
  float* line = (float*)aligned_alloc(64, (padded * sizeof(float) + 63) / 64 * 64);
  if (line == nullptr) return 1;
  memset(line + classes, 0, (padded - classes) * sizeof(float));
  for (int64_t r = 0; r < rows; ++r) {
    memcpy(line, x + r * classes, classes * sizeof(float));
    Vec top[UNROLL];
    Vec sum[UNROLL];
    for (int u = 0; u < UNROLL; ++u) {
      top[u] = Splat(line[0]);
      sum[u] = Splat(0);
    }
    for (int64_t c = 0; c < padded; c += LANES * UNROLL) {
#pragma GCC unroll 8
      for (int u = 0; u < UNROLL; ++u) {
        const Vec v = Load(line + c + u * LANES);
        top[u] = v > top[u] ? v : top[u];
      }
    }
    float row_top = top[0][0];
    for (int u = 0; u < UNROLL; ++u) {
      for (int i = 0; i < LANES; ++i) row_top = top[u][i] > row_top ? top[u][i] : row_top;
    }
    for (int64_t c = 0; c < padded; c += LANES * UNROLL) {
#pragma GCC unroll 8
      for (int u = 0; u < UNROLL; ++u) sum[u] += Exp(Load(line + c + u * LANES) - row_top);
    }
    float row_sum = 0;
    for (int u = 0; u < UNROLL; ++u) {
      for (int i = 0; i < LANES; ++i) row_sum += sum[u][i];
    }
    loss[r] = __builtin_logf(row_sum) + (row_top - line[labels[r]]);
  }
  free(line);
  return 0;
}
