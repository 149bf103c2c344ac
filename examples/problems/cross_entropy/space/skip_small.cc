// Maximum first; then exponentials only of the logits within CUTOFF of it, since the rest cannot
// change the sum in single precision. The survivors are compacted in blocks of BLOCK logits.
#include <kernelcast/candidate.h>
#include <math.h>

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const float* __restrict x = kc_data<float>(inputs[0]);
  const int32_t* __restrict labels = kc_data<int32_t>(inputs[1]);
  float* __restrict loss = kc_data<float>(outputs[0]);
  const int64_t rows = inputs[0].shape[0];
  const int64_t classes = inputs[0].shape[1];
  for (int64_t r = 0; r < rows; ++r) {
    const float* in = x + r * classes;
    float top = in[0];
    for (int64_t c = 1; c < classes; ++c) top = in[c] > top ? in[c] : top;
    const float least = top - CUTOFF;
    float sum = 0;
    for (int64_t begin = 0; begin < classes; begin += BLOCK) {
      const int64_t end = begin + BLOCK < classes ? begin + BLOCK : classes;
      float kept[BLOCK];
      int count = 0;
      for (int64_t c = begin; c < end; ++c) {
        kept[count] = in[c] - top;
        count += in[c] >= least;
      }
      float part = 0;
      for (int k = 0; k < count; ++k) part += expf(kept[k]);
      sum += part;
    }
    loss[r] = logf(sum) + (top - in[labels[r]]);
  }
  return 0;
}
