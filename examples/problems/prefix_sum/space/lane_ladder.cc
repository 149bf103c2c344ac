// Scan inside a vector of LANES floats by STEPS shift-and-add steps over distances 1, 2, 4, ...;
// UNROLL vectors are scanned independently and then joined by the carry.
#include <kernelcast/candidate.h>

typedef float Vec __attribute__((vector_size(4 * LANES)));
typedef int32_t IntVec __attribute__((vector_size(4 * LANES)));
typedef float LooseVec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

// Every lane takes the value `kDistance` lanes below it, or zero.
template <int kDistance>
static inline __attribute__((always_inline)) Vec Shifted(Vec v) {
  IntVec pick;
  for (int i = 0; i < LANES; ++i) pick[i] = i < kDistance ? i : LANES + i - kDistance;
  return __builtin_shuffle(Vec{}, v, pick);
}

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const float* __restrict x = kc_data<float>(inputs[0]);
  float* __restrict y = kc_data<float>(outputs[0]);
  const int64_t n = inputs[0].shape[0];
  float carry = 0;
  int64_t i = 0;
  for (; i + LANES * UNROLL <= n; i += LANES * UNROLL) {
    Vec v[UNROLL];
#pragma GCC unroll 8
    for (int u = 0; u < UNROLL; ++u) {
      v[u] = *(const LooseVec*)(x + i + u * LANES);
      v[u] += Shifted<1>(v[u]);
      v[u] += Shifted<2>(v[u]);
      if (STEPS > 2) v[u] += Shifted<4>(v[u]);
      if (STEPS > 3) v[u] += Shifted<8>(v[u]);
    }
#pragma GCC unroll 8
    for (int u = 0; u < UNROLL; ++u) {
      const float step = v[u][LANES - 1];
      *(LooseVec*)(y + i + u * LANES) = v[u] + carry;
      carry += step;
    }
  }
  for (; i < n; ++i) y[i] = carry += x[i];
  return 0;
}
