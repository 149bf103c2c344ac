// All scores first, KEYS dot products side by side in vectors of LANES floats; then softmax; then
// VALUES rows of values at once into the output.
#include <kernelcast/candidate.h>
#include <stdlib.h>

typedef float Vec __attribute__((vector_size(4 * LANES)));
typedef float LooseVec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

template <int kKeys>
static inline void Dots(const float* __restrict q, const float* __restrict k, int64_t dim,
                        float scale, float* __restrict score) {
  Vec sum[kKeys] = {};
  int64_t d = 0;
  for (; d + LANES <= dim; d += LANES) {
    const Vec part = *(const LooseVec*)(q + d);
#pragma GCC unroll 8
    for (int i = 0; i < kKeys; ++i) sum[i] += part * *(const LooseVec*)(k + i * dim + d);
  }
  for (int i = 0; i < kKeys; ++i) {
    float dot = 0;
    for (int l = 0; l < LANES; ++l) dot += sum[i][l];
    for (int64_t r = d; r < dim; ++r) dot += q[r] * k[i * dim + r];
    score[i] = dot * scale;
  }
}

template <int kValues>
static inline void Add(const float* __restrict weight, const float* __restrict v, int64_t dim,
                       float* __restrict out) {
  int64_t d = 0;
  for (; d + LANES <= dim; d += LANES) {
    Vec sum = *(const LooseVec*)(out + d);
#pragma GCC unroll 8
    for (int i = 0; i < kValues; ++i) sum += weight[i] * *(const LooseVec*)(v + i * dim + d);
    *(LooseVec*)(out + d) = sum;
  }
  for (; d < dim; ++d) {
    for (int i = 0; i < kValues; ++i) out[d] += weight[i] * v[i * dim + d];
  }
}

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const int64_t heads = inputs[1].shape[0];
  const int64_t length = inputs[1].shape[1];
  const int64_t dim = inputs[1].shape[2];
  const float scale = 1.0f / __builtin_sqrtf((float)dim);
  float* __restrict score = (float*)malloc(length * sizeof(float));
  if (score == nullptr) return 1;
  for (int64_t h = 0; h < heads; ++h) {
    const float* q = kc_data<float>(inputs[0]) + h * dim;
    const float* k = kc_data<float>(inputs[1]) + h * length * dim;
    const float* v = kc_data<float>(inputs[2]) + h * length * dim;
    float* out = kc_data<float>(outputs[0]) + h * dim;
    int64_t t = 0;
    for (; t + KEYS <= length; t += KEYS) Dots<KEYS>(q, k + t * dim, dim, scale, score + t);
    for (; t < length; ++t) Dots<1>(q, k + t * dim, dim, scale, score + t);
    float top = score[0];
    for (t = 1; t < length; ++t) top = score[t] > top ? score[t] : top;
    float sum = 0;
    for (t = 0; t < length; ++t) sum += score[t] = __builtin_expf(score[t] - top);
    for (int64_t d = 0; d < dim; ++d) out[d] = 0;
    for (t = 0; t + VALUES <= length; t += VALUES) Add<VALUES>(score + t, v + t * dim, dim, out);
    for (; t < length; ++t) Add<1>(score + t, v + t * dim, dim, out);
    for (int64_t d = 0; d < dim; ++d) out[d] /= sum;
  }
  free(score);
  return 0;
}
