// Hillis and Steele within tiles of TILE elements: log2(TILE) sweeps that each add the value at
// twice the previous distance, between two buffers; tiles are joined by the carry.
#include <kernelcast/candidate.h>
#include <string.h>

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const float* __restrict x = kc_data<float>(inputs[0]);
  float* __restrict y = kc_data<float>(outputs[0]);
  const int64_t n = inputs[0].shape[0];
  float buffer[2][TILE];
  float carry = 0;
  for (int64_t begin = 0; begin < n; begin += TILE) {
    const int64_t count = n - begin < TILE ? n - begin : TILE;
    float* __restrict from = buffer[0];
    float* __restrict to = buffer[1];
    memset(from, 0, sizeof(buffer[0]));
    memcpy(from, x + begin, count * sizeof(float));
    for (int distance = 1; distance < TILE; distance *= 2) {
      for (int k = 0; k < distance; ++k) to[k] = from[k];
      for (int k = distance; k < TILE; ++k) to[k] = from[k] + from[k - distance];
      float* swap = from;
      from = to;
      to = swap;
    }
    for (int64_t k = 0; k < count; ++k) y[begin + k] = from[k] + carry;
    carry += from[TILE - 1];
  }
  return 0;
}
