// Maximum and sum passes with library exp in EXP precision and PARTS partial results each.
#include <kernelcast/candidate.h>
#include <math.h>

#define double_exp exp
#define float_exp expf

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const float* __restrict x = kc_data<float>(inputs[0]);
  const int32_t* __restrict labels = kc_data<int32_t>(inputs[1]);
  float* __restrict loss = kc_data<float>(outputs[0]);
  const int64_t rows = inputs[0].shape[0];
  const int64_t classes = inputs[0].shape[1];
  for (int64_t r = 0; r < rows; ++r) {
    const float* in = x + r * classes;
    float top[PARTS];
    for (int p = 0; p < PARTS; ++p) top[p] = in[0];
    int64_t c = 0;
    for (; c + PARTS <= classes; c += PARTS) {
      for (int p = 0; p < PARTS; ++p) top[p] = in[c + p] > top[p] ? in[c + p] : top[p];
    }
    for (; c < classes; ++c) top[0] = in[c] > top[0] ? in[c] : top[0];
    for (int p = 1; p < PARTS; ++p) top[0] = top[p] > top[0] ? top[p] : top[0];
    const float row_top = top[0];

    float sum[PARTS] = {};
    for (c = 0; c + PARTS <= classes; c += PARTS) {
      for (int p = 0; p < PARTS; ++p) sum[p] += (float)EXP(in[c + p] - row_top);
    }
    for (; c < classes; ++c) sum[0] += (float)EXP(in[c] - row_top);
    for (int p = 1; p < PARTS; ++p) sum[0] += sum[p];
    loss[r] = logf(sum[0]) + (row_top - in[labels[r]]);
  }
  return 0;
}
