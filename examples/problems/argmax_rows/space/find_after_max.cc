// Two vector passes a row: the maximum value first, then the first element equal to it, looked for
// in chunks of CHUNK vectors.
#include <kernelcast/candidate.h>

typedef float Vec __attribute__((vector_size(4 * LANES)));
typedef int32_t IntVec __attribute__((vector_size(4 * LANES)));
typedef float LooseVec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const float* __restrict x = kc_data<float>(inputs[0]);
  int32_t* __restrict y = kc_data<int32_t>(outputs[0]);
  const int64_t rows = inputs[0].shape[0];
  const int64_t cols = inputs[0].shape[1];
  const int64_t step = LANES * CHUNK;
  for (int64_t r = 0; r < rows; ++r) {
    const float* in = x + r * cols;
    Vec top[CHUNK];
    for (int k = 0; k < CHUNK; ++k) top[k] = in[0] - Vec{};
    int64_t c = 0;
    for (; c + step <= cols; c += step) {
#pragma GCC unroll 16
      for (int k = 0; k < CHUNK; ++k) {
        const Vec v = *(const LooseVec*)(in + c + k * LANES);
        top[k] = v > top[k] ? v : top[k];
      }
    }
    for (int k = 1; k < CHUNK; ++k) top[0] = top[k] > top[0] ? top[k] : top[0];
    float best = top[0][0];
    for (int i = 1; i < LANES; ++i) best = top[0][i] > best ? top[0][i] : best;
    for (; c < cols; ++c) best = in[c] > best ? in[c] : best;

    for (c = 0; c + step <= cols; c += step) {
      IntVec found = {};
#pragma GCC unroll 16
      for (int k = 0; k < CHUNK; ++k) found |= *(const LooseVec*)(in + c + k * LANES) == best;
      int32_t any = 0;
      for (int i = 0; i < LANES; ++i) any |= found[i];
      if (any) break;
    }
    while (in[c] != best) ++c;
    y[r] = (int32_t)c;
  }
  return 0;
}
