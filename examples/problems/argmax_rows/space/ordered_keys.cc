// Each element becomes one 64-bit key, the value mapped to an ordered integer above the inverted
// column, so that an integer maximum finds value and index together. WAYS keys run side by side.
#include <kernelcast/candidate.h>

static inline int64_t Key(float v, int64_t c) {
  const int32_t bits = __builtin_bit_cast(int32_t, v + 0.0f);
  const int32_t ordered = bits ^ ((bits >> 31) & 0x7fffffff);
  return ((int64_t)ordered << 32) | (int64_t)(uint32_t) ~(uint32_t)c;
}

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const float* __restrict x = kc_data<float>(inputs[0]);
  int32_t* __restrict y = kc_data<int32_t>(outputs[0]);
  const int64_t rows = inputs[0].shape[0];
  const int64_t cols = inputs[0].shape[1];
  for (int64_t r = 0; r < rows; ++r) {
    const float* in = x + r * cols;
    int64_t top[WAYS];
    for (int w = 0; w < WAYS; ++w) top[w] = Key(in[0], 0);
    int64_t c = 0;
    for (; c + WAYS <= cols; c += WAYS) {
      for (int w = 0; w < WAYS; ++w) {
        const int64_t key = Key(in[c + w], c + w);
        top[w] = key > top[w] ? key : top[w];
      }
    }
    for (; c < cols; ++c) {
      const int64_t key = Key(in[c], c);
      top[0] = key > top[0] ? key : top[0];
    }
    for (int w = 1; w < WAYS; ++w) top[0] = top[w] > top[0] ? top[w] : top[0];
    y[r] = (int32_t) ~(uint32_t)top[0];
  }
  return 0;
}
