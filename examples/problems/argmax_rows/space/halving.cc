// Tournament: the row's values and indices are copied out and neighbours at half the distance play
// against each other until one is left. LAST players finish by linear search.
#include <kernelcast/candidate.h>
#include <stdlib.h>
#include <string.h>

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const float* __restrict x = kc_data<float>(inputs[0]);
  int32_t* __restrict y = kc_data<int32_t>(outputs[0]);
  const int64_t rows = inputs[0].shape[0];
  const int64_t cols = inputs[0].shape[1];
  float* __restrict value = (float*)malloc(cols * sizeof(float));
  int32_t* __restrict index = (int32_t*)malloc(cols * sizeof(int32_t));
  if (value == nullptr || index == nullptr) return 1;
  for (int64_t r = 0; r < rows; ++r) {
    memcpy(value, x + r * cols, cols * sizeof(float));
    for (int64_t c = 0; c < cols; ++c) index[c] = (int32_t)c;
    int64_t players = cols;
    while (players > LAST) {
      const int64_t half = players / 2;
      for (int64_t c = 0; c < half; ++c) {
        const bool second = value[c + half] > value[c];
        value[c] = second ? value[c + half] : value[c];
        index[c] = second ? index[c + half] : index[c];
      }
      players = half;
    }
    int32_t at = index[0];
    float top = value[0];
    for (int64_t c = 1; c < players; ++c) {
      if (value[c] > top || (value[c] == top && index[c] < at)) {
        top = value[c];
        at = index[c];
      }
    }
    y[r] = at;
  }
  free(value);
  free(index);
  return 0;
}
