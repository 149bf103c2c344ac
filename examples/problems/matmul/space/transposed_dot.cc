// b is transposed into scratch memory (as float, or as bfloat16 to halve its traffic), then each
// element of c is a dot product of two contiguous rows; DOTS of them share the loads of a.
#include <kernelcast/candidate.h>
#include <stdlib.h>

#define f32 0
#define bf16 1

#if STORAGE == bf16
typedef uint16_t Stored;
static inline Stored Pack(float v) { return (Stored)(__builtin_bit_cast(uint32_t, v) >> 16); }
static inline float Unpack(Stored v) { return __builtin_bit_cast(float, (uint32_t)v << 16); }
#else
typedef float Stored;
static inline Stored Pack(float v) { return v; }
static inline float Unpack(Stored v) { return v; }
#endif

template <int kDots>
static void Dots(const float* __restrict a, const Stored* __restrict b, float* __restrict c,
                 int64_t k) {
  float sum[kDots][LANES] = {};
  int64_t p = 0;
  for (; p + LANES <= k; p += LANES) {
#pragma GCC unroll 4
    for (int d = 0; d < kDots; ++d) {
      for (int i = 0; i < LANES; ++i) sum[d][i] += a[p + i] * Unpack(b[d * k + p + i]);
    }
  }
  for (; p < k; ++p) {
    for (int d = 0; d < kDots; ++d) sum[d][0] += a[p] * Unpack(b[d * k + p]);
  }
  for (int d = 0; d < kDots; ++d) {
    float total = 0;
    for (int i = 0; i < LANES; ++i) total += sum[d][i];
    c[d] = total;
  }
}

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const float* a = kc_data<float>(inputs[0]);
  const float* b = kc_data<float>(inputs[1]);
  float* c = kc_data<float>(outputs[0]);
  const int64_t m = inputs[0].shape[0];
  const int64_t k = inputs[0].shape[1];
  const int64_t n = inputs[1].shape[1];
  Stored* turned = (Stored*)malloc(n * k * sizeof(Stored));
  if (turned == nullptr) return 1;
  for (int64_t p = 0; p < k; ++p) {
    for (int64_t j = 0; j < n; ++j) turned[j * k + p] = Pack(b[p * n + j]);
  }
  for (int64_t i = 0; i < m; ++i) {
    int64_t j = 0;
    for (; j + DOTS <= n; j += DOTS) Dots<DOTS>(a + i * k, turned + j * k, c + i * n + j, k);
    for (; j < n; ++j) Dots<1>(a + i * k, turned + j * k, c + i * n + j, k);
  }
  free(turned);
  return 0;
}
