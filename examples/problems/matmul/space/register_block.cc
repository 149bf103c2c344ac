// Register-blocked micro-kernel: an MR x (NV * LANES) block of c stays in registers over the whole
// inner dimension. PACK == 1 first copies the block's columns of b into a contiguous panel.
#include <kernelcast/candidate.h>
#include <stdlib.h>
#include <string.h>

static_assert(MR * NV + NV + 1 <= 32, "the block must fit the vector registers");

#define NR (NV * LANES)

typedef float Vec __attribute__((vector_size(4 * LANES)));
typedef float LooseVec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

template <int kRows>
static void Block(const float* __restrict a, const float* __restrict b, float* __restrict c,
                  int64_t k, int64_t lda, int64_t ldb, int64_t ldc) {
  Vec acc[kRows][NV] = {};
  for (int64_t p = 0; p < k; ++p) {
    Vec row[NV];
#pragma GCC unroll 8
    for (int v = 0; v < NV; ++v) row[v] = *(const LooseVec*)(b + p * ldb + v * LANES);
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
      for (int v = 0; v < NV; ++v) acc[i][v] += a[i * lda + p] * row[v];
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
    for (int v = 0; v < NV; ++v) *(LooseVec*)(c + i * ldc + v * LANES) = acc[i][v];
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
  float* panel = (float*)aligned_alloc(64, (k * NR * sizeof(float) + 63) / 64 * 64);
  if (panel == nullptr) return 1;
  for (int64_t j = 0; j < n; j += NR) {
    const int64_t width = n - j < NR ? n - j : NR;
    const bool packed = PACK || width < NR;
    if (packed) {
      if (width < NR) memset(panel, 0, k * NR * sizeof(float));
      for (int64_t p = 0; p < k; ++p) {
        memcpy(panel + p * NR, b + p * n + j, width * sizeof(float));
      }
    }
    const float* from = packed ? panel : b + j;
    const int64_t ldb = packed ? NR : n;
    int64_t i = 0;
    if (width == NR) {
      for (; i + MR <= m; i += MR) Block<MR>(a + i * k, from, c + i * n + j, k, k, ldb, n);
      for (; i < m; ++i) Block<1>(a + i * k, from, c + i * n + j, k, k, ldb, n);
    } else {
      float edge[MR * NR];
      for (; i + MR <= m; i += MR) {
        Block<MR>(a + i * k, from, edge, k, k, ldb, NR);
        for (int64_t r = 0; r < MR; ++r) {
          memcpy(c + (i + r) * n + j, edge + r * NR, width * sizeof(float));
        }
      }
      for (; i < m; ++i) {
        Block<1>(a + i * k, from, edge, k, k, ldb, NR);
        memcpy(c + i * n + j, edge, width * sizeof(float));
      }
    }
  }
  free(panel);
  return 0;
}
