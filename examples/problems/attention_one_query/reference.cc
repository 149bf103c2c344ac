// A head at a time: all scores, their softmax, then the values added row by row.
#include <kernelcast/candidate.h>
#include <math.h>
#include <stdlib.h>

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const float* q = kc_data<float>(inputs[0]);
  const float* k = kc_data<float>(inputs[1]);
  const float* v = kc_data<float>(inputs[2]);
  float* out = kc_data<float>(outputs[0]);
  const int64_t heads = inputs[1].shape[0];
  const int64_t length = inputs[1].shape[1];
  const int64_t dim = inputs[1].shape[2];
  const float scale = 1.0f / sqrtf((float)dim);
  float* score = (float*)malloc(length * sizeof(float));
  if (score == nullptr) return 1;
  for (int64_t h = 0; h < heads; ++h) {
    float top = 0;
    for (int64_t t = 0; t < length; ++t) {
      float dot = 0;
      for (int64_t d = 0; d < dim; ++d) dot += q[h * dim + d] * k[(h * length + t) * dim + d];
      score[t] = dot * scale;
      if (t == 0 || score[t] > top) top = score[t];
    }
    float sum = 0;
    for (int64_t t = 0; t < length; ++t) {
      score[t] = expf(score[t] - top);
      sum += score[t];
    }
    for (int64_t d = 0; d < dim; ++d) out[h * dim + d] = 0;
    for (int64_t t = 0; t < length; ++t) {
      const float weight = score[t] / sum;
      for (int64_t d = 0; d < dim; ++d) {
        out[h * dim + d] += weight * v[(h * length + t) * dim + d];
      }
    }
  }
  free(score);
  return 0;
}
