// One pass over keys and values in blocks of BLOCK positions with a running maximum, sum and
// output. The running values are rescaled when a block raises the maximum by more than SLACK.
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
  const float scale = 1.0f / __builtin_sqrtf((float)dim);
  for (int64_t h = 0; h < heads; ++h) {
    const float* __restrict q = kc_data<float>(inputs[0]) + h * dim;
    const float* __restrict k = kc_data<float>(inputs[1]) + h * length * dim;
    const float* __restrict v = kc_data<float>(inputs[2]) + h * length * dim;
    float* __restrict out = kc_data<float>(outputs[0]) + h * dim;
    for (int64_t d = 0; d < dim; ++d) out[d] = 0;
    float base = 0;
    float sum = 0;
    for (int64_t begin = 0; begin < length; begin += BLOCK) {
      const int64_t count = length - begin < BLOCK ? length - begin : BLOCK;
      float score[BLOCK];
      float top = 0;
      for (int64_t t = 0; t < count; ++t) {
        const float* key = k + (begin + t) * dim;
        Vec part = {};
        for (int64_t d = 0; d < vector_dim; d += LANES) {
          part += *(const LooseVec*)(q + d) * *(const LooseVec*)(key + d);
        }
        float dot = 0;
        for (int l = 0; l < LANES; ++l) dot += part[l];
        for (int64_t d = vector_dim; d < dim; ++d) dot += q[d] * key[d];
        score[t] = dot * scale;
        top = t == 0 || score[t] > top ? score[t] : top;
      }
      if (begin == 0) {
        base = top;
      } else if (top > base + SLACK) {
        const float factor = __builtin_expf(base - top);
        sum *= factor;
        for (int64_t d = 0; d < dim; ++d) out[d] *= factor;
        base = top;
      }
      for (int64_t t = 0; t < count; ++t) sum += score[t] = __builtin_expf(score[t] - base);
      for (int64_t d = 0; d < vector_dim; d += LANES) {
        Vec total = *(const LooseVec*)(out + d);
        for (int64_t t = 0; t < count; ++t) {
          total += score[t] * *(const LooseVec*)(v + (begin + t) * dim + d);
        }
        *(LooseVec*)(out + d) = total;
      }
      for (int64_t d = vector_dim; d < dim; ++d) {
        for (int64_t t = 0; t < count; ++t) out[d] += score[t] * v[(begin + t) * dim + d];
      }
    }
    for (int64_t d = 0; d < dim; ++d) out[d] /= sum;
  }
  return 0;
}
