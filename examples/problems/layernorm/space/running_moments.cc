// Welford's running mean and variance in STREAMS interleaved streams that are merged at the row's
// end.
#include <kernelcast/candidate.h>

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const float* __restrict x = kc_data<float>(inputs[0]);
  const float* __restrict gamma = kc_data<float>(inputs[1]);
  const float* __restrict beta = kc_data<float>(inputs[2]);
  float* __restrict y = kc_data<float>(outputs[0]);
  const int64_t rows = inputs[0].shape[0];
  const int64_t cols = inputs[0].shape[1];
  for (int64_t r = 0; r < rows; ++r) {
    const float* in = x + r * cols;
    float* out = y + r * cols;
    float mean[STREAMS] = {};
    float spread[STREAMS] = {};
    int64_t c = 0;
    int64_t count = 0;
    for (; c + STREAMS <= cols; c += STREAMS) {
      const float weight = 1.0f / (float)++count;
      for (int s = 0; s < STREAMS; ++s) {
        const float d = in[c + s] - mean[s];
        mean[s] += d * weight;
        spread[s] += d * (in[c + s] - mean[s]);
      }
    }
    float row_mean = 0;
    float row_spread = 0;
    int64_t total = 0;
    if (count > 0) {
      for (int s = 0; s < STREAMS; ++s) {
        const float d = mean[s] - row_mean;
        const int64_t joint = total + count;
        row_mean += d * (float)count / (float)joint;
        row_spread += spread[s] + d * d * (float)total * (float)count / (float)joint;
        total = joint;
      }
    }
    for (; c < cols; ++c) {
      const float d = in[c] - row_mean;
      row_mean += d / (float)++total;
      row_spread += d * (in[c] - row_mean);
    }
    const float scale = 1.0f / __builtin_sqrtf(row_spread / cols + 1e-5f);
    for (c = 0; c < cols; ++c) out[c] = (in[c] - row_mean) * scale * gamma[c] + beta[c];
  }
  return 0;
}
