// Both moments in one pass, taken about a pivot: PIVOT == middle uses the middle one of three
// elements of the row, PIVOT == zero the origin. Vectors of LANES floats, UNROLL of them in flight.
#include <kernelcast/candidate.h>

#define zero 0
#define middle 1

typedef float Vec __attribute__((vector_size(4 * LANES)));
typedef float LooseVec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

static inline float Middle(float a, float b, float c) {
  const float low = a < b ? a : b;
  const float high = a < b ? b : a;
  return c < low ? low : c > high ? high : c;
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
    const float pivot = PIVOT == middle ? Middle(in[0], in[cols / 2], in[cols - 1]) : 0.0f;
    Vec part[UNROLL] = {};
    Vec square[UNROLL] = {};
    for (int64_t c = 0; c < main_cols; c += LANES * UNROLL) {
#pragma GCC unroll 8
      for (int u = 0; u < UNROLL; ++u) {
        const Vec d = *(const LooseVec*)(in + c + u * LANES) - pivot;
        part[u] += d;
        square[u] += d * d;
      }
    }
    float sum = 0;
    float squares = 0;
    for (int u = 0; u < UNROLL; ++u) {
      for (int i = 0; i < LANES; ++i) {
        sum += part[u][i];
        squares += square[u][i];
      }
    }
    for (int64_t c = main_cols; c < cols; ++c) {
      const float d = in[c] - pivot;
      sum += d;
      squares += d * d;
    }
    const float offset = sum / cols;
    float variance = squares / cols - offset * offset;
    if (variance < 0) variance = 0;
    const float mean = pivot + offset;
    const float scale = 1.0f / __builtin_sqrtf(variance + 1e-5f);
    for (int64_t c = 0; c < cols; ++c) out[c] = (in[c] - mean) * scale * gamma[c] + beta[c];
  }
  return 0;
}
