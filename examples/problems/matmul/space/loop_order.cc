// The three nested loops in the order ORDER names, with the output cleared first.
#include <kernelcast/candidate.h>
#include <string.h>

#define ijk 0
#define ikj 1
#define kij 2
#define jki 3

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const float* __restrict a = kc_data<float>(inputs[0]);
  const float* __restrict b = kc_data<float>(inputs[1]);
  float* __restrict c = kc_data<float>(outputs[0]);
  const int64_t m = inputs[0].shape[0];
  const int64_t k = inputs[0].shape[1];
  const int64_t n = inputs[1].shape[1];
  memset(c, 0, m * n * sizeof(float));
#if ORDER == ijk
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j)
      for (int64_t p = 0; p < k; ++p) c[i * n + j] += a[i * k + p] * b[p * n + j];
#elif ORDER == ikj
  for (int64_t i = 0; i < m; ++i)
    for (int64_t p = 0; p < k; ++p)
      for (int64_t j = 0; j < n; ++j) c[i * n + j] += a[i * k + p] * b[p * n + j];
#elif ORDER == kij
  for (int64_t p = 0; p < k; ++p)
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) c[i * n + j] += a[i * k + p] * b[p * n + j];
#else
  for (int64_t j = 0; j < n; ++j)
    for (int64_t p = 0; p < k; ++p)
      for (int64_t i = 0; i < m; ++i) c[i * n + j] += a[i * k + p] * b[p * n + j];
#endif
  return 0;
}
