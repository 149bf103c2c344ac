#include <kernelcast/candidate.h>

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const int64_t n = inputs[1].shape[0];
  const int64_t dim = inputs[0].shape[1];
  const float* table = kc_data<float>(inputs[0]);
  const int32_t* index = kc_data<int32_t>(inputs[1]);
  const float* scale = kc_data<float>(inputs[2]);
  const float* weight = kc_data<float>(inputs[3]);
  float* out = kc_data<float>(outputs[0]);
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t d = 0; d < dim; ++d) {
      out[i * dim + d] = table[index[i] * dim + d] * scale[d] * weight[i];
    }
  }
  return 0;
}
