// Rows are copied in whole vectors only and may spill into the next output row; the last rows,
// where a vector could leave the table or the output, are copied exactly. Rows go from the last to
// the first, AHEAD rows prefetched.
#include <kernelcast/candidate.h>

typedef float LooseVec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const float* table = kc_data<float>(inputs[0]);
  const int32_t* index = kc_data<int32_t>(inputs[1]);
  float* out = kc_data<float>(outputs[0]);
  const int64_t rows = inputs[0].shape[0];
  const int64_t dim = inputs[0].shape[1];
  const int64_t n = inputs[1].shape[0];
  const int64_t padded = (dim + LANES - 1) / LANES * LANES;
  const int64_t exact = (padded + dim - 1) / dim;
  for (int64_t i = n - 1; i >= 0; --i) {
#if AHEAD > 0
    if (i >= AHEAD) __builtin_prefetch(table + index[i - AHEAD] * dim);
#endif
    const float* from = table + index[i] * dim;
    float* to = out + i * dim;
    if (i + exact > n || index[i] + exact > rows) {
      for (int64_t d = 0; d < dim; ++d) to[d] = from[d];
    } else {
      for (int64_t d = 0; d < padded; d += LANES) {
        *(LooseVec*)(to + d) = *(const LooseVec*)(from + d);
      }
    }
  }
  return 0;
}
