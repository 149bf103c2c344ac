// Three vector passes in which a ragged row end is covered by one more vector that ends exactly
// at the row's last element and overlaps the one before it. Rows shorter than a vector are scalar.
#include <kernelcast/candidate.h>
#include <math.h>

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
  const IntVec n = __builtin_convertvector(t - 0.5f, IntVec);
  const Vec f = t - __builtin_convertvector(n, Vec);
  Vec p = 0.00967554096f + f * 0.00132764713f;
  p = 0.0555071309f + f * p;
  p = 0.240221202f + f * p;
  p = 0.693146944f + f * p;
  p = 1.0f + f * p;
  return p * (Vec)((n + 127) << 23);
}

constexpr int kUnroll = UNROLL;

static void ShortRow(const float* in, float* out, int64_t cols) {
  float top = in[0];
  for (int64_t c = 1; c < cols; ++c) top = in[c] > top ? in[c] : top;
  float sum = 0;
  for (int64_t c = 0; c < cols; ++c) sum += out[c] = expf(in[c] - top);
  for (int64_t c = 0; c < cols; ++c) out[c] /= sum;
}

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const float* x = kc_data<float>(inputs[0]);
  float* y = kc_data<float>(outputs[0]);
  const int64_t rows = inputs[0].shape[0];
  const int64_t cols = inputs[0].shape[1];
  for (int64_t r = 0; r < rows; ++r) {
    const float* __restrict in = x + r * cols;
    float* __restrict out = y + r * cols;
    if (cols < LANES) {
      ShortRow(in, out, cols);
      continue;
    }
    const int64_t end = cols - LANES;
    Vec top = Load(in + end);
#pragma GCC unroll kUnroll
    for (int64_t c = 0; c < end; c += LANES) {
      const Vec v = Load(in + c);
      top = v > top ? v : top;
    }
    float row_top = top[0];
    for (int i = 1; i < LANES; ++i) row_top = top[i] > row_top ? top[i] : row_top;

    Vec sum = Splat(0);
#pragma GCC unroll kUnroll
    for (int64_t c = 0; c < end; c += LANES) {
      const Vec e = Exp(Load(in + c) - row_top);
      Store(out + c, e);
      sum += e;
    }
    const Vec last = Exp(Load(in + end) - row_top);
    Store(out + end, last);
    sum += last;
    float row_sum = 0;
    for (int i = 0; i < LANES; ++i) row_sum += sum[i];
    const float scale = 1.0f / row_sum;
    for (int64_t c = 0; c < cols; ++c) out[c] *= scale;
  }
  return 0;
}
