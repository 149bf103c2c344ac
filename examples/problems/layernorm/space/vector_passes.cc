// Mean and variance passes in vectors of LANES floats, UNROLL of them in flight. STORE == centred
// writes x - mean in the variance pass and scales it afterwards; STORE == late reads x again.
#include <kernelcast/candidate.h>

#define late 0
#define centred 1

typedef float Vec __attribute__((vector_size(4 * LANES)));
typedef float LooseVec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

#define INLINE static inline __attribute__((always_inline))

INLINE Vec Load(const float* p) { return *(const LooseVec*)p; }

INLINE float Total(const Vec* part) {
  Vec sum = part[0];
  for (int u = 1; u < UNROLL; ++u) sum += part[u];
  float total = 0;
  for (int i = 0; i < LANES; ++i) total += sum[i];
  return total;
}

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const float* __restrict x = kc_data<float>(inputs[0]);
  const float* __restrict gamma = kc_data<float>(inputs[1]);
  const float* __restrict beta = kc_data<float>(inputs[2]);
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
      for (int u = 0; u < UNROLL; ++u) part[u] += Load(in + c + u * LANES);
    }
    float sum = Total(part);
    for (int64_t c = main_cols; c < cols; ++c) sum += in[c];
    const float mean = sum / cols;

    for (int u = 0; u < UNROLL; ++u) part[u] = Vec{};
    for (int64_t c = 0; c < main_cols; c += LANES * UNROLL) {
#pragma GCC unroll 8
      for (int u = 0; u < UNROLL; ++u) {
        const Vec d = Load(in + c + u * LANES) - mean;
        part[u] += d * d;
#if STORE == centred
        *(LooseVec*)(out + c + u * LANES) = d;
#endif
      }
    }
    sum = Total(part);
    for (int64_t c = main_cols; c < cols; ++c) {
      sum += (in[c] - mean) * (in[c] - mean);
      out[c] = in[c] - mean;
    }
    const float scale = 1.0f / __builtin_sqrtf(sum / cols + 1e-5f);
#if STORE == centred
    for (int64_t c = 0; c < cols; ++c) out[c] = out[c] * scale * gamma[c] + beta[c];
#else
    for (int64_t c = 0; c < cols; ++c) out[c] = (in[c] - mean) * scale * gamma[c] + beta[c];
#endif
  }
  return 0;
}
