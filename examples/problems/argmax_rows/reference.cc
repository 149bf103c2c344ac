// One pass a row with the best value and its index at hand.
#include <kernelcast/candidate.h>

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const float* x = kc_data<float>(inputs[0]);
  int32_t* y = kc_data<int32_t>(outputs[0]);
  const int64_t rows = inputs[0].shape[0];
  const int64_t cols = inputs[0].shape[1];
  for (int64_t r = 0; r < rows; ++r) {
    const float* in = x + r * cols;
    float top = in[0];
    int32_t at = 0;
    for (int64_t c = 1; c < cols; ++c) {
      if (in[c] > top) {
        top = in[c];
        at = (int32_t)c;
      }
    }
    y[r] = at;
  }
  return 0;
}
