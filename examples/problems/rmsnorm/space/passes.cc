// Two plain passes a row with PARTS partial sums of squares in ACC precision.
#include <kernelcast/candidate.h>

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const float* __restrict x = kc_data<float>(inputs[0]);
  const float* __restrict weight = kc_data<float>(inputs[1]);
  float* __restrict y = kc_data<float>(outputs[0]);
  const int64_t rows = inputs[0].shape[0];
  const int64_t cols = inputs[0].shape[1];
  for (int64_t r = 0; r < rows; ++r) {
    const float* in = x + r * cols;
    float* out = y + r * cols;
    ACC part[PARTS] = {};
    int64_t c = 0;
    for (; c + PARTS <= cols; c += PARTS) {
      for (int p = 0; p < PARTS; ++p) part[p] += (ACC)in[c + p] * in[c + p];
    }
    for (; c < cols; ++c) part[0] += (ACC)in[c] * in[c];
    ACC sum = 0;
    for (int p = 0; p < PARTS; ++p) sum += part[p];
    const float scale = (float)(1 / __builtin_sqrt(sum / cols + 1e-6));
    for (c = 0; c < cols; ++c) out[c] = in[c] * scale * weight[c];
  }
  return 0;
}
