// Private counters of a narrow TYPE (COPIES sets) fit more bins in a cache line; they are added to
// the result and cleared after every FLUSH values.
#include <kernelcast/candidate.h>
#include <stdlib.h>
#include <string.h>

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const int32_t* __restrict x = kc_data<int32_t>(inputs[0]);
  int32_t* __restrict y = kc_data<int32_t>(outputs[0]);
  const int64_t n = inputs[0].shape[0];
  const int64_t bins = outputs[0].shape[0];
  memset(y, 0, bins * sizeof(int32_t));
  TYPE* __restrict count = (TYPE*)malloc(COPIES * bins * sizeof(TYPE));
  if (count == nullptr) return 1;
  for (int64_t begin = 0; begin < n; begin += FLUSH) {
    const int64_t end = n - begin < FLUSH ? n : begin + FLUSH;
    memset(count, 0, COPIES * bins * sizeof(TYPE));
    int64_t i = begin;
    for (; i + COPIES <= end; i += COPIES) {
#pragma GCC unroll 16
      for (int k = 0; k < COPIES; ++k) ++count[k * bins + x[i + k]];
    }
    for (; i < end; ++i) ++count[x[i]];
    for (int k = 0; k < COPIES; ++k) {
      for (int64_t b = 0; b < bins; ++b) y[b] += count[k * bins + b];
    }
  }
  free(count);
  return 0;
}
