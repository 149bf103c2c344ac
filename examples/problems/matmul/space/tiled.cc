// Loop tiling in all three dimensions; inside a tile, rows of b are scaled into rows of c.
#include <kernelcast/candidate.h>
#include <string.h>

static inline int64_t Least(int64_t a, int64_t b) { return a < b ? a : b; }

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const float* __restrict a = kc_data<float>(inputs[0]);
  const float* __restrict b = kc_data<float>(inputs[1]);
  float* __restrict c = kc_data<float>(outputs[0]);
  const int64_t m = inputs[0].shape[0];
  const int64_t k = inputs[0].shape[1];
  const int64_t n = inputs[1].shape[1];
  memset(c, 0, m * n * sizeof(float));
  for (int64_t p0 = 0; p0 < k; p0 += TILE_K) {
    const int64_t p1 = Least(p0 + TILE_K, k);
    for (int64_t j0 = 0; j0 < n; j0 += TILE_N) {
      const int64_t j1 = Least(j0 + TILE_N, n);
      for (int64_t i0 = 0; i0 < m; i0 += TILE_M) {
        const int64_t i1 = Least(i0 + TILE_M, m);
        for (int64_t i = i0; i < i1; ++i) {
          for (int64_t p = p0; p < p1; ++p) {
            const float scale = a[i * k + p];
            for (int64_t j = j0; j < j1; ++j) c[i * n + j] += scale * b[p * n + j];
          }
        }
      }
    }
  }
  return 0;
}
