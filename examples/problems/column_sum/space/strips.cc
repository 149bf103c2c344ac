// Strips of VECS vectors of LANES columns. Float sums over BLOCK rows stay in registers and are
// then added to double-precision totals.
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
    double total[WIDTH] = {};
    for (int64_t r0 = 0; r0 < rows; r0 += BLOCK) {
      const int64_t r1 = r0 + BLOCK < rows ? r0 + BLOCK : rows;
      Vec part[VECS] = {};
      for (int64_t r = r0; r < r1; ++r) {
#pragma GCC unroll 8
        for (int v = 0; v < VECS; ++v) {
          part[v] += *(const LooseVec*)(x + r * cols + c + v * LANES);
        }
      }
      for (int v = 0; v < VECS; ++v) {
        for (int i = 0; i < LANES; ++i) total[v * LANES + i] += part[v][i];
      }
    }
    for (int w = 0; w < WIDTH; ++w) y[c + w] = (float)total[w];
  }
  for (; c < cols; ++c) {
    double sum = 0;
    for (int64_t r = 0; r < rows; ++r) sum += x[r * cols + c];
    y[c] = (float)sum;
  }
  return 0;
}
