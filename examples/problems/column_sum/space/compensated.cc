// Compensated (Kahan) summation in float, VECS vectors of LANES columns at a time.
#include <kernelcast/candidate.h>

#define WIDTH (LANES * VECS)

typedef float Vec __attribute__((vector_size(4 * LANES)));
typedef float LooseVec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const float* __restrict x = kc_data<float>(inputs[0]);
  float* __restrict y = kc_data<float>(outputs[0]);
  const int64_t rows = inputs[0].shape[0];
  const int64_t cols = inputs[0].shape[1];
  int64_t c = 0;
  for (; c + WIDTH <= cols; c += WIDTH) {
    Vec sum[VECS] = {};
    Vec lost[VECS] = {};
    for (int64_t r = 0; r < rows; ++r) {
#pragma GCC unroll 8
      for (int v = 0; v < VECS; ++v) {
        const Vec term = *(const LooseVec*)(x + r * cols + c + v * LANES) - lost[v];
        const Vec next = sum[v] + term;
        lost[v] = (next - sum[v]) - term;
        sum[v] = next;
      }
    }
    for (int v = 0; v < VECS; ++v) *(LooseVec*)(y + c + v * LANES) = sum[v];
  }
  for (; c < cols; ++c) {
    float sum = 0;
    float lost = 0;
    for (int64_t r = 0; r < rows; ++r) {
      const float term = x[r * cols + c] - lost;
      const float next = sum + term;
      lost = (next - sum) - term;
      sum = next;
    }
    y[c] = sum;
  }
  return 0;
}
