// Three passes a row: maximum, exponentials and their sum, division.
#include <kernelcast/candidate.h>
#include <math.h>

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const float* x = kc_data<float>(inputs[0]);
  float* y = kc_data<float>(outputs[0]);
  const int64_t rows = inputs[0].shape[0];
  const int64_t cols = inputs[0].shape[1];
  for (int64_t r = 0; r < rows; ++r) {
    const float* in = x + r * cols;
    float* out = y + r * cols;
    float top = in[0];
    for (int64_t c = 1; c < cols; ++c) {
      if (in[c] > top) top = in[c];
    }
    float sum = 0;
    for (int64_t c = 0; c < cols; ++c) {
      out[c] = expf(in[c] - top);
      sum += out[c];
    }
    for (int64_t c = 0; c < cols; ++c) out[c] /= sum;
  }
  return 0;
}
