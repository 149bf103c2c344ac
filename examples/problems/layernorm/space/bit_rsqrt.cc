// Vector passes with the reciprocal square root from the exponent trick, refined by STEPS Newton
// iterations.
#include <kernelcast/candidate.h>

typedef float Vec __attribute__((vector_size(4 * LANES)));
typedef float LooseVec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

static inline float InverseRoot(float v) {
  float guess = __builtin_bit_cast(float, 0x5f375a86 - (__builtin_bit_cast(int32_t, v) >> 1));
  for (int s = 0; s < STEPS; ++s) guess *= 1.5f - 0.5f * v * guess * guess;
  return guess;
}

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const float* __restrict x = kc_data<float>(inputs[0]);
  const float* __restrict gamma = kc_data<float>(inputs[1]);
  const float* __restrict beta = kc_data<float>(inputs[2]);
  float* __restrict y = kc_data<float>(outputs[0]);
  const int64_t rows = inputs[0].shape[0];
  const int64_t cols = inputs[0].shape[1];
  const int64_t main_cols = cols / LANES * LANES;
  for (int64_t r = 0; r < rows; ++r) {
    const float* in = x + r * cols;
    float* out = y + r * cols;
    Vec part = {};
    for (int64_t c = 0; c < main_cols; c += LANES) part += *(const LooseVec*)(in + c);
    float sum = 0;
    for (int i = 0; i < LANES; ++i) sum += part[i];
    for (int64_t c = main_cols; c < cols; ++c) sum += in[c];
    const float mean = sum / cols;
    part = Vec{};
    for (int64_t c = 0; c < main_cols; c += LANES) {
      const Vec d = *(const LooseVec*)(in + c) - mean;
      part += d * d;
    }
    sum = 0;
    for (int i = 0; i < LANES; ++i) sum += part[i];
    for (int64_t c = main_cols; c < cols; ++c) sum += (in[c] - mean) * (in[c] - mean);
    const float scale = InverseRoot(sum / cols + 1e-5f);
    for (int64_t c = 0; c < cols; ++c) out[c] = (in[c] - mean) * scale * gamma[c] + beta[c];
  }
  return 0;
}
