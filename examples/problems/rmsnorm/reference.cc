// Two plain passes a row: sum of squares, scaling.
#include <kernelcast/candidate.h>

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const float* x = kc_data<float>(inputs[0]);
  const float* weight = kc_data<float>(inputs[1]);
  float* y = kc_data<float>(outputs[0]);
  const int64_t rows = inputs[0].shape[0];
  const int64_t cols = inputs[0].shape[1];
  for (int64_t r = 0; r < rows; ++r) {
    const float* in = x + r * cols;
    float* out = y + r * cols;
    float sum = 0;
    for (int64_t c = 0; c < cols; ++c) sum += in[c] * in[c];
    const float scale = 1.0f / __builtin_sqrtf(sum / cols + 1e-6f);
    for (int64_t c = 0; c < cols; ++c) out[c] = in[c] * scale * weight[c];
  }
  return 0;
}
