// One vector pass a row: every lane carries its best value and the vector number it came from, in
// UNROLL independent sets that are merged at the row's end. TIES says how equal values merge.
#include <kernelcast/candidate.h>

#define lowest_index 0
#define any_lane 1

typedef float Vec __attribute__((vector_size(4 * LANES)));
typedef int32_t IntVec __attribute__((vector_size(4 * LANES)));
typedef float LooseVec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const float* __restrict x = kc_data<float>(inputs[0]);
  int32_t* __restrict y = kc_data<int32_t>(outputs[0]);
  const int64_t rows = inputs[0].shape[0];
  const int64_t cols = inputs[0].shape[1];
  const int64_t step = LANES * UNROLL;
  IntVec lane = {};
  for (int i = 0; i < LANES; ++i) lane[i] = i;
  for (int64_t r = 0; r < rows; ++r) {
    const float* in = x + r * cols;
    Vec top[UNROLL];
    IntVec at[UNROLL] = {};
    for (int u = 0; u < UNROLL; ++u) top[u] = in[0] - Vec{};
    int64_t c = 0;
    for (; c + step <= cols; c += step) {
#pragma GCC unroll 8
      for (int u = 0; u < UNROLL; ++u) {
        const Vec v = *(const LooseVec*)(in + c + u * LANES);
        const IntVec higher = v > top[u];
        top[u] = higher ? v : top[u];
        at[u] = higher ? lane + (int32_t)(c + u * LANES) : at[u];
      }
    }
    float best = top[0][0];
    int32_t best_at = at[0][0];
    for (int u = 0; u < UNROLL; ++u) {
      for (int i = 0; i < LANES; ++i) {
        const bool equal_wins = TIES == lowest_index ? at[u][i] < best_at : false;
        if (top[u][i] > best || (top[u][i] == best && equal_wins)) {
          best = top[u][i];
          best_at = at[u][i];
        }
      }
    }
    for (; c < cols; ++c) {
      if (in[c] > best) {
        best = in[c];
        best_at = (int32_t)c;
      }
    }
    y[r] = best_at;
  }
  return 0;
}
