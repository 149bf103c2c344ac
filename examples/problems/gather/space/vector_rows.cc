// Whole vectors of LANES floats, then the rest of the row. END == scalar copies the rest one by
// one; END == overlap copies the row's last LANES floats again, where the row is long enough.
#include <kernelcast/candidate.h>

#define scalar 0
#define overlap 1

typedef float LooseVec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const float* __restrict table = kc_data<float>(inputs[0]);
  const int32_t* __restrict index = kc_data<int32_t>(inputs[1]);
  float* __restrict out = kc_data<float>(outputs[0]);
  const int64_t dim = inputs[0].shape[1];
  const int64_t n = inputs[1].shape[0];
  const bool overlapped = END == overlap && dim >= LANES;
  for (int64_t i = 0; i < n; ++i) {
#if AHEAD > 0
    if (i + AHEAD < n) __builtin_prefetch(table + index[i + AHEAD] * dim);
#endif
    const float* __restrict from = table + index[i] * dim;
    float* __restrict to = out + i * dim;
    int64_t d = 0;
    for (; d + LANES <= dim; d += LANES) *(LooseVec*)(to + d) = *(const LooseVec*)(from + d);
    if (overlapped) {
      *(LooseVec*)(to + dim - LANES) = *(const LooseVec*)(from + dim - LANES);
    } else {
      for (; d < dim; ++d) to[d] = from[d];
    }
  }
  return 0;
}
