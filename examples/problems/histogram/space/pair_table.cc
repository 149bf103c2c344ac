// Two values at once index a bins x bins table (COPIES of it), which is folded into the counts at
// the end. Too many bins for a small table fall back to plain counting.
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
  int64_t i = 0;
  if (bins <= 64) {
    const int64_t cells = bins * bins;
    int32_t* __restrict table = (int32_t*)calloc(COPIES * cells, sizeof(int32_t));
    if (table == nullptr) return 1;
    const int32_t width = (int32_t)bins;
    for (; i + 2 * COPIES <= n; i += 2 * COPIES) {
#pragma GCC unroll 8
      for (int k = 0; k < COPIES; ++k) {
        ++table[k * cells + x[i + 2 * k] * width + x[i + 2 * k + 1]];
      }
    }
    for (int64_t a = 0; a < bins; ++a) {
      for (int64_t b = 0; b < bins; ++b) {
        int32_t sum = 0;
        for (int k = 0; k < COPIES; ++k) sum += table[k * cells + a * bins + b];
        y[a] += sum;
        y[b] += sum;
      }
    }
    free(table);
  }
  for (; i < n; ++i) ++y[x[i]];
  return 0;
}
