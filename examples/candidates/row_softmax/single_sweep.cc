// Exponentials and their sum in one sweep over the input, then one scaling sweep.
#include <kernelcast/candidate.h>
#include <math.h>

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const int64_t rows = inputs[0].shape[0];
  const int64_t cols = inputs[0].shape[1];
  for (int64_t r = 0; r < rows; ++r) {
    const float* __restrict in = kc_data<float>(inputs[0]) + r * cols;
    float* __restrict out = kc_data<float>(outputs[0]) + r * cols;
    float sum = 0;
    for (int64_t c = 0; c < cols; ++c) {
      const float e = expf(in[c]);
      out[c] = e;
      sum += e;
    }
    for (int64_t c = 0; c < cols; ++c) out[c] /= sum;
  }
  return 0;
}
