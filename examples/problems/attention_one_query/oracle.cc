// Scores, softmax and weighted sum in double precision.
#include <kernelcast/candidate.h>
#include <math.h>
#include <stdlib.h>

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const float* q = kc_data<float>(inputs[0]);
  const float* k = kc_data<float>(inputs[1]);
  const float* v = kc_data<float>(inputs[2]);
  double* out = kc_data<double>(outputs[0]);
  const int64_t heads = inputs[1].shape[0];
  const int64_t length = inputs[1].shape[1];
  const int64_t dim = inputs[1].shape[2];
  double* score = (double*)malloc(length * sizeof(double));
  if (score == nullptr) return 1;
  for (int64_t h = 0; h < heads; ++h) {
    double top = -INFINITY;
    for (int64_t t = 0; t < length; ++t) {
      double dot = 0;
      for (int64_t d = 0; d < dim; ++d) {
        dot += (double)q[h * dim + d] * k[(h * length + t) * dim + d];
      }
      score[t] = dot / sqrt((double)dim);
      top = fmax(top, score[t]);
    }
    double sum = 0;
    for (int64_t t = 0; t < length; ++t) sum += score[t] = exp(score[t] - top);
    for (int64_t d = 0; d < dim; ++d) {
      double total = 0;
      for (int64_t t = 0; t < length; ++t) total += score[t] * v[(h * length + t) * dim + d];
      out[h * dim + d] = total / sum;
    }
  }
  free(score);
  return 0;
}
