#include <kernelcast/candidate.h>

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const float* x = kc_data<float>(inputs[0]);
  float* y = kc_data<float>(outputs[0]);
  const int64_t n = inputs[0].shape[0] * inputs[0].shape[1];
  for (int64_t i = 0; i < n; ++i) {
    float v = x[i];
    for (int step = 0; step < 40; ++step) v = 0.5f * v + 0.3f / (1 + v * v);
    y[i] = v + x[i] / 16;
  }
  return 0;
}
