// The look-ups are ordered by BUCKETS ranges of table rows first, so that the table is read a range
// at a time, while the output is written out of order.
#include <kernelcast/candidate.h>
#include <stdlib.h>
#include <string.h>

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const float* __restrict table = kc_data<float>(inputs[0]);
  const int32_t* __restrict index = kc_data<int32_t>(inputs[1]);
  float* __restrict out = kc_data<float>(outputs[0]);
  const int64_t rows = inputs[0].shape[0];
  const int64_t dim = inputs[0].shape[1];
  const int64_t n = inputs[1].shape[0];
  const int32_t span = (int32_t)((rows + BUCKETS - 1) / BUCKETS);
  int32_t* __restrict order = (int32_t*)malloc(n * sizeof(int32_t));
  if (order == nullptr) return 1;
  int64_t begin[BUCKETS + 1] = {};
  for (int64_t i = 0; i < n; ++i) ++begin[index[i] / span + 1];
  for (int b = 0; b < BUCKETS; ++b) begin[b + 1] += begin[b];
  for (int64_t i = 0; i < n; ++i) order[begin[index[i] / span]++] = (int32_t)i;
  for (int64_t k = 0; k < n; ++k) {
    const int64_t i = order[k];
    memcpy(out + i * dim, table + index[i] * dim, dim * sizeof(float));
  }
  free(order);
  return 0;
}
