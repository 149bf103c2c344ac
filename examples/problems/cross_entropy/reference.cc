// Maximum, then the sum of exponentials, a row at a time.
#include <kernelcast/candidate.h>
#include <math.h>

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const float* x = kc_data<float>(inputs[0]);
  const int32_t* labels = kc_data<int32_t>(inputs[1]);
  float* loss = kc_data<float>(outputs[0]);
  const int64_t rows = inputs[0].shape[0];
  const int64_t classes = inputs[0].shape[1];
  for (int64_t r = 0; r < rows; ++r) {
    const float* in = x + r * classes;
    float top = in[0];
    for (int64_t c = 1; c < classes; ++c) {
      if (in[c] > top) top = in[c];
    }
    float sum = 0;
    for (int64_t c = 0; c < classes; ++c) sum += expf(in[c] - top);
    loss[r] = logf(sum) + (top - in[labels[r]]);
  }
  return 0;
}
