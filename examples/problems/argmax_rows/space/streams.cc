// STREAMS interleaved scalar searches a row; SELECT == branch jumps on a new maximum, SELECT ==
// move selects without a jump.
#include <kernelcast/candidate.h>

#define branch 0
#define move 1

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const float* __restrict x = kc_data<float>(inputs[0]);
  int32_t* __restrict y = kc_data<int32_t>(outputs[0]);
  const int64_t rows = inputs[0].shape[0];
  const int64_t cols = inputs[0].shape[1];
  for (int64_t r = 0; r < rows; ++r) {
    const float* in = x + r * cols;
    float top[STREAMS];
    int32_t at[STREAMS];
    for (int s = 0; s < STREAMS; ++s) {
      top[s] = in[0];
      at[s] = 0;
    }
    int64_t c = 0;
    for (; c + STREAMS <= cols; c += STREAMS) {
      for (int s = 0; s < STREAMS; ++s) {
#if SELECT == branch
        if (__builtin_expect(in[c + s] > top[s], 0)) {
          top[s] = in[c + s];
          at[s] = (int32_t)(c + s);
        }
#else
        const bool higher = in[c + s] > top[s];
        at[s] = higher ? (int32_t)(c + s) : at[s];
        top[s] = higher ? in[c + s] : top[s];
#endif
      }
    }
    for (; c < cols; ++c) {
      if (in[c] > top[0]) {
        top[0] = in[c];
        at[0] = (int32_t)c;
      }
    }
    for (int s = 1; s < STREAMS; ++s) {
      if (top[s] > top[0] || (top[s] == top[0] && at[s] < at[0])) {
        top[0] = top[s];
        at[0] = at[s];
      }
    }
    y[r] = at[0];
  }
  return 0;
}
