// exp through a table of 2^(i / 2^TABLE_BITS) and a Taylor polynomial of degree DEGREE for the
// remainder. The table is filled at the start of the call. UNROLL elements go through the
// exponential together, with one partial sum each.
#include <kernelcast/candidate.h>
#include <math.h>
#include <string.h>

#define TABLE_SIZE (1 << TABLE_BITS)

static inline float Exp(float x, const float* table) {
  float t = x * (1.44269504f * TABLE_SIZE);
  t = t > -126.0f * TABLE_SIZE ? t : -126.0f * TABLE_SIZE;
  const int32_t n = (int32_t)(t - 0.5f);
  const float z = (t - (float)n) * (0.693147181f / TABLE_SIZE);
  float p = 1.0f + z;
#if DEGREE == 2
  p = 1.0f + z * (1.0f + z * 0.5f);
#elif DEGREE == 3
  p = 1.0f + z * (1.0f + z * (0.5f + z * 0.166666667f));
#endif
  const int32_t bits = ((n >> TABLE_BITS) + 127) << 23;
  float power;
  memcpy(&power, &bits, sizeof(power));
  return table[n & (TABLE_SIZE - 1)] * power * p;
}

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const float* x = kc_data<float>(inputs[0]);
  float* y = kc_data<float>(outputs[0]);
  const int64_t rows = inputs[0].shape[0];
  const int64_t cols = inputs[0].shape[1];
  const int64_t main_cols = cols / UNROLL * UNROLL;
  float table[TABLE_SIZE];
  for (int i = 0; i < TABLE_SIZE; ++i) table[i] = exp2f((float)i / TABLE_SIZE);
  for (int64_t r = 0; r < rows; ++r) {
    const float* __restrict in = x + r * cols;
    float* __restrict out = y + r * cols;
    float top[UNROLL];
    float sum[UNROLL];
    for (int u = 0; u < UNROLL; ++u) {
      top[u] = in[0];
      sum[u] = 0;
    }
    for (int64_t c = 0; c < main_cols; c += UNROLL) {
      for (int u = 0; u < UNROLL; ++u) top[u] = in[c + u] > top[u] ? in[c + u] : top[u];
    }
    for (int64_t c = main_cols; c < cols; ++c) top[0] = in[c] > top[0] ? in[c] : top[0];
    float row_top = top[0];
    for (int u = 1; u < UNROLL; ++u) row_top = top[u] > row_top ? top[u] : row_top;

    for (int64_t c = 0; c < main_cols; c += UNROLL) {
      for (int u = 0; u < UNROLL; ++u) {
        const float e = Exp(in[c + u] - row_top, table);
        out[c + u] = e;
        sum[u] += e;
      }
    }
    for (int64_t c = main_cols; c < cols; ++c) {
      out[c] = Exp(in[c] - row_top, table);
      sum[0] += out[c];
    }
    float row_sum = sum[0];
    for (int u = 1; u < UNROLL; ++u) row_sum += sum[u];
    const float scale = 1.0f / row_sum;
    for (int64_t c = 0; c < cols; ++c) out[c] *= scale;
  }
  return 0;
}
