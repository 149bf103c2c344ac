// All scores first, in plain loops with PARTS partial sums a dot product; then softmax; then the
// values, walked by row (VALUES == by_row) or by column.
#include <kernelcast/candidate.h>
#include <math.h>
#include <stdlib.h>

#define by_row 0
#define by_column 1

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const int64_t heads = inputs[1].shape[0];
  const int64_t length = inputs[1].shape[1];
  const int64_t dim = inputs[1].shape[2];
  const float scale = 1.0f / sqrtf((float)dim);
  float* __restrict score = (float*)malloc(length * sizeof(float));
  if (score == nullptr) return 1;
  for (int64_t h = 0; h < heads; ++h) {
    const float* __restrict q = kc_data<float>(inputs[0]) + h * dim;
    const float* __restrict k = kc_data<float>(inputs[1]) + h * length * dim;
    const float* __restrict v = kc_data<float>(inputs[2]) + h * length * dim;
    float* __restrict out = kc_data<float>(outputs[0]) + h * dim;
    float top = 0;
    for (int64_t t = 0; t < length; ++t) {
      float part[PARTS] = {};
      int64_t d = 0;
      for (; d + PARTS <= dim; d += PARTS) {
        for (int p = 0; p < PARTS; ++p) part[p] += q[d + p] * k[t * dim + d + p];
      }
      for (; d < dim; ++d) part[0] += q[d] * k[t * dim + d];
      float dot = 0;
      for (int p = 0; p < PARTS; ++p) dot += part[p];
      score[t] = dot * scale;
      top = t == 0 || score[t] > top ? score[t] : top;
    }
    float sum = 0;
    for (int64_t t = 0; t < length; ++t) sum += score[t] = expf(score[t] - top);
    const float share = 1.0f / sum;
#if VALUES == by_row
    for (int64_t d = 0; d < dim; ++d) out[d] = 0;
    for (int64_t t = 0; t < length; ++t) {
      const float weight = score[t] * share;
      for (int64_t d = 0; d < dim; ++d) out[d] += weight * v[t * dim + d];
    }
#else
    for (int64_t d = 0; d < dim; ++d) {
      float total = 0;
      for (int64_t t = 0; t < length; ++t) total += score[t] * v[t * dim + d];
      out[d] = total * share;
    }
#endif
  }
  free(score);
  return 0;
}
