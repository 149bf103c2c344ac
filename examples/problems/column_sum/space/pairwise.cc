// Pairwise summation of rows: groups of LEAF rows are added into a line of floats, and lines are
// merged like the carries of a binary counter, so that the error grows with log(rows).
#include <kernelcast/candidate.h>
#include <stdlib.h>
#include <string.h>

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const float* __restrict x = kc_data<float>(inputs[0]);
  float* __restrict y = kc_data<float>(outputs[0]);
  const int64_t rows = inputs[0].shape[0];
  const int64_t cols = inputs[0].shape[1];
  const int kLevels = 48;
  float* lines = (float*)malloc(kLevels * cols * sizeof(float));
  if (lines == nullptr) return 1;
  int64_t groups = 0;
  int used = 0;
  for (int64_t r0 = 0; r0 < rows; r0 += LEAF) {
    const int64_t r1 = r0 + LEAF < rows ? r0 + LEAF : rows;
    float* __restrict line = lines + used * cols;
    if (r1 - r0 == LEAF) {
      for (int64_t c = 0; c < cols; ++c) {
        float sum = 0;
#pragma GCC unroll 16
        for (int k = 0; k < LEAF; ++k) sum += x[(r0 + k) * cols + c];
        line[c] = sum;
      }
    } else {
      memset(line, 0, cols * sizeof(float));
      for (int64_t r = r0; r < r1; ++r) {
        for (int64_t c = 0; c < cols; ++c) line[c] += x[r * cols + c];
      }
    }
    ++used;
    for (int64_t carry = ++groups; carry % 2 == 0; carry /= 2) {
      float* __restrict into = lines + (used - 2) * cols;
      const float* __restrict from = lines + (used - 1) * cols;
      for (int64_t c = 0; c < cols; ++c) into[c] += from[c];
      --used;
    }
  }
  for (; used > 1; --used) {
    float* __restrict into = lines + (used - 2) * cols;
    const float* __restrict from = lines + (used - 1) * cols;
    for (int64_t c = 0; c < cols; ++c) into[c] += from[c];
  }
  memcpy(y, lines, cols * sizeof(float));
  free(lines);
  return 0;
}
