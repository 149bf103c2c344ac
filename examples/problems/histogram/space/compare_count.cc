// Counts by comparison: for each group of BINS bins, chunks of CHUNK values are compared with every
// bin of the group in vectors of LANES lanes. Many bins fall back to plain counting.
#include <kernelcast/candidate.h>
#include <string.h>

typedef int32_t IntVec __attribute__((vector_size(4 * LANES)));
typedef int32_t LooseVec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const int32_t* __restrict x = kc_data<int32_t>(inputs[0]);
  int32_t* __restrict y = kc_data<int32_t>(outputs[0]);
  const int64_t n = inputs[0].shape[0];
  const int64_t bins = outputs[0].shape[0];
  memset(y, 0, bins * sizeof(int32_t));
  int64_t counted = 0;
  if (bins <= 64) {
    for (; counted + CHUNK <= n; counted += CHUNK) {
      const int32_t* in = x + counted;
      for (int64_t b = 0; b < bins; b += BINS) {
        IntVec hits[BINS] = {};
        for (int64_t i = 0; i < CHUNK; i += LANES) {
          const IntVec v = *(const LooseVec*)(in + i);
#pragma GCC unroll 8
          for (int k = 0; k < BINS; ++k) hits[k] -= v == (int32_t)(b + k);
        }
        for (int k = 0; k < BINS && b + k < bins; ++k) {
          int32_t sum = 0;
          for (int l = 0; l < LANES; ++l) sum += hits[k][l];
          y[b + k] += sum;
        }
      }
    }
  }
  for (; counted < n; ++counted) ++y[x[counted]];
  return 0;
}
