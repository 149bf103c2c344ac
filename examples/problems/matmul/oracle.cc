// Textbook triple loop in double precision.
#include <kernelcast/candidate.h>

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const float* a = kc_data<float>(inputs[0]);
  const float* b = kc_data<float>(inputs[1]);
  double* c = kc_data<double>(outputs[0]);
  const int64_t m = inputs[0].shape[0];
  const int64_t k = inputs[0].shape[1];
  const int64_t n = inputs[1].shape[1];
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t p = 0; p < k; ++p) sum += (double)a[i * k + p] * b[p * n + j];
      c[i * n + j] = sum;
    }
  }
  return 0;
}
