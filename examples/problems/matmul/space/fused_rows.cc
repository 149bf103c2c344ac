// Each pass over a row of c adds DEPTH scaled rows of b at once, so that c is loaded and stored
// DEPTH times less often.
#include <kernelcast/candidate.h>
#include <string.h>

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const float* __restrict a = kc_data<float>(inputs[0]);
  const float* __restrict b = kc_data<float>(inputs[1]);
  float* __restrict c = kc_data<float>(outputs[0]);
  const int64_t m = inputs[0].shape[0];
  const int64_t k = inputs[0].shape[1];
  const int64_t n = inputs[1].shape[1];
  const int64_t passes = k / DEPTH;
  memset(c, 0, m * n * sizeof(float));
  for (int64_t i = 0; i < m; ++i) {
    float* __restrict row = c + i * n;
    for (int64_t q = 0; q < passes; ++q) {
      const float* __restrict scale = a + i * k + q * DEPTH;
      const float* __restrict from = b + q * DEPTH * n;
      for (int64_t j = 0; j < n; ++j) {
        float sum = row[j];
#pragma GCC unroll 16
        for (int d = 0; d < DEPTH; ++d) sum += scale[d] * from[d * n + j];
        row[j] = sum;
      }
    }
  }
  return 0;
}
