// The cache is cut into SPLITS pieces, each with its own maximum, sum and weighted values; the
// pieces are combined at the end by adding sums and values.
#include <kernelcast/candidate.h>
#include <stdlib.h>

typedef float Vec __attribute__((vector_size(4 * LANES)));
typedef float LooseVec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const int64_t heads = inputs[1].shape[0];
  const int64_t length = inputs[1].shape[1];
  const int64_t dim = inputs[1].shape[2];
  const int64_t vector_dim = dim / LANES * LANES;
  const int64_t piece = (length + SPLITS - 1) / SPLITS;
  const float scale = 1.0f / __builtin_sqrtf((float)dim);
  float* __restrict score = (float*)malloc(piece * sizeof(float));
  if (score == nullptr) return 1;
  for (int64_t h = 0; h < heads; ++h) {
    const float* __restrict q = kc_data<float>(inputs[0]) + h * dim;
    float* __restrict out = kc_data<float>(outputs[0]) + h * dim;
    for (int64_t d = 0; d < dim; ++d) out[d] = 0;
    float sum = 0;
    for (int64_t begin = 0; begin < length; begin += piece) {
      const int64_t count = length - begin < piece ? length - begin : piece;
      const float* __restrict k = kc_data<float>(inputs[1]) + (h * length + begin) * dim;
      const float* __restrict v = kc_data<float>(inputs[2]) + (h * length + begin) * dim;
      float top = 0;
      for (int64_t t = 0; t < count; ++t) {
        Vec part = {};
        for (int64_t d = 0; d < vector_dim; d += LANES) {
          part += *(const LooseVec*)(q + d) * *(const LooseVec*)(k + t * dim + d);
        }
        float dot = 0;
        for (int l = 0; l < LANES; ++l) dot += part[l];
        for (int64_t d = vector_dim; d < dim; ++d) dot += q[d] * k[t * dim + d];
        score[t] = dot * scale;
        top = t == 0 || score[t] > top ? score[t] : top;
      }
      for (int64_t t = 0; t < count; ++t) sum += score[t] = __builtin_expf(score[t] - top);
      for (int64_t t = 0; t < count; ++t) {
        for (int64_t d = 0; d < dim; ++d) out[d] += score[t] * v[t * dim + d];
      }
    }
    for (int64_t d = 0; d < dim; ++d) out[d] /= sum;
  }
  free(score);
  return 0;
}
