// COPIES private sets of counters take the values in turn, so that equal neighbours do not wait for
// each other. LAYOUT places the sets one after another or a bin's counters side by side.
#include <kernelcast/candidate.h>
#include <stdlib.h>

#define separate 0
#define side_by_side 1

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const int32_t* __restrict x = kc_data<int32_t>(inputs[0]);
  int32_t* __restrict y = kc_data<int32_t>(outputs[0]);
  const int64_t n = inputs[0].shape[0];
  const int64_t bins = outputs[0].shape[0];
  const int64_t pitch = bins + 16;
  int32_t* __restrict count = (int32_t*)calloc(COPIES * pitch, sizeof(int32_t));
  if (count == nullptr) return 1;
  int64_t i = 0;
  for (; i + COPIES * ROUNDS <= n; i += COPIES * ROUNDS) {
#pragma GCC unroll 32
    for (int k = 0; k < COPIES * ROUNDS; ++k) {
#if LAYOUT == separate
      ++count[k % COPIES * pitch + x[i + k]];
#else
      ++count[(int64_t)x[i + k] * COPIES + k % COPIES];
#endif
    }
  }
  for (int64_t b = 0; b < bins; ++b) {
    int32_t sum = 0;
    for (int k = 0; k < COPIES; ++k) {
      sum += LAYOUT == separate ? count[k * pitch + b] : count[b * COPIES + k];
    }
    y[b] = sum;
  }
  for (; i < n; ++i) ++y[x[i]];
  free(count);
  return 0;
}
