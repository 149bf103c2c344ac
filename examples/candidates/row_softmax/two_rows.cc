// Two rows side by side in explicit vectors of LANES floats, with a polynomial for 2^f.
#include <kernelcast/candidate.h>
#include <string.h>

#define LANES 8

typedef float Vec __attribute__((vector_size(4 * LANES)));
typedef int32_t IntVec __attribute__((vector_size(4 * LANES)));
typedef float LooseVec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

static inline __attribute__((always_inline)) Vec Exp(Vec x) {
  Vec t = x * 1.44269504f;
  t = t > -126.0f ? t : -126.0f - Vec{};
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
static void Rows(const float* in, float* out, int64_t cols) {
  const int64_t whole = cols / LANES * LANES;
  const int64_t rest = (cols - whole) * sizeof(float);
  float top[kRows];
  Vec last[kRows];
  Vec sum[kRows] = {};
  for (int k = 0; k < kRows; ++k) {
    const float* row = in + k * cols;
    Vec most = row[0] - Vec{};
    memcpy(&most, row + whole, rest);
    for (int64_t c = 0; c < whole; c += LANES) {
      const Vec v = *(const LooseVec*)(row + c);
      most = v > most ? v : most;
    }
    top[k] = most[0];
    for (int i = 1; i < LANES; ++i) top[k] = most[i] > top[k] ? most[i] : top[k];
    last[k] = top[k] - Vec{};
    memcpy(&last[k], row + whole, rest);
    last[k] = Exp(last[k] - top[k]);
  }
  for (int64_t c = 0; c < whole; c += LANES) {
    for (int k = 0; k < kRows; ++k) {
      const Vec e = Exp(*(const LooseVec*)(in + k * cols + c) - top[k]);
      *(LooseVec*)(out + k * cols + c) = e;
      sum[k] += e;
    }
  }
  for (int k = 0; k < kRows; ++k) {
    float* row = out + k * cols;
    float total = 0;
    for (int i = 0; i < LANES; ++i) total += sum[k][i];
    for (int64_t i = 0; i < cols - whole; ++i) total += last[k][i];
    const float scale = 1.0f / total;
    for (int64_t c = 0; c < whole; c += LANES) {
      *(LooseVec*)(row + c) = *(const LooseVec*)(row + c) * scale;
    }
    last[k] *= scale;
    memcpy(row + whole, &last[k], rest);
  }
}

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const float* x = kc_data<float>(inputs[0]);
  float* y = kc_data<float>(outputs[0]);
  const int64_t rows = inputs[0].shape[0];
  const int64_t cols = inputs[0].shape[1];
  int64_t r = 0;
  for (; r + 2 <= rows; r += 2) Rows<2>(x + r * cols, y + r * cols, cols);
  for (; r < rows; ++r) Rows<1>(x + r * cols, y + r * cols, cols);
  return 0;
}
