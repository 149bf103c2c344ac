// Row-oriented product: each element of a scales a row of b into a row of c.
#include <kernelcast/candidate.h>

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const float* a = kc_data<float>(inputs[0]);
  const float* b = kc_data<float>(inputs[1]);
  float* c = kc_data<float>(outputs[0]);
  const int64_t m = inputs[0].shape[0];
  const int64_t k = inputs[0].shape[1];
  const int64_t n = inputs[1].shape[1];
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) c[i * n + j] = 0;
    for (int64_t p = 0; p < k; ++p) {
      const float scale = a[i * k + p];
      for (int64_t j = 0; j < n; ++j) c[i * n + j] += scale * b[p * n + j];
    }
  }
  return 0;
}
