// Column by column, WIDTH columns together: every index is looked up once for each group of
// columns.
#include <kernelcast/candidate.h>

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const float* __restrict table = kc_data<float>(inputs[0]);
  const int32_t* __restrict index = kc_data<int32_t>(inputs[1]);
  float* __restrict out = kc_data<float>(outputs[0]);
  const int64_t dim = inputs[0].shape[1];
  const int64_t n = inputs[1].shape[0];
  int64_t d = 0;
  for (; d + WIDTH <= dim; d += WIDTH) {
    for (int64_t i = 0; i < n; ++i) {
      for (int w = 0; w < WIDTH; ++w) out[i * dim + d + w] = table[index[i] * dim + d + w];
    }
  }
  for (; d < dim; ++d) {
    for (int64_t i = 0; i < n; ++i) out[i * dim + d] = table[index[i] * dim + d];
  }
  return 0;
}
