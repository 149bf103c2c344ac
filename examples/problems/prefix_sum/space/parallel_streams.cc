// The vector is cut into STREAMS long pieces that are scanned in lockstep; a second pass adds each
// piece's offset, unless JOIN == first_pass took the totals beforehand.
#include <kernelcast/candidate.h>

#define second_pass 0
#define first_pass 1

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const float* __restrict x = kc_data<float>(inputs[0]);
  float* __restrict y = kc_data<float>(outputs[0]);
  const int64_t n = inputs[0].shape[0];
  const int64_t piece = n / STREAMS;
  float total[STREAMS] = {};
#if JOIN == first_pass
  float offset = 0;
  for (int s = 0; s < STREAMS; ++s) {
    total[s] = offset;
    float part[16] = {};
    int64_t k = 0;
    for (; k + 16 <= piece; k += 16) {
      for (int i = 0; i < 16; ++i) part[i] += x[s * piece + k + i];
    }
    for (; k < piece; ++k) part[0] += x[s * piece + k];
    for (int i = 0; i < 16; ++i) offset += part[i];
  }
#endif
  for (int64_t k = 0; k < piece; ++k) {
#pragma GCC unroll 32
    for (int s = 0; s < STREAMS; ++s) {
      total[s] += x[s * piece + k];
      y[s * piece + k] = total[s];
    }
  }
#if JOIN == second_pass
  for (int s = 1; s < STREAMS; ++s) {
    const float before = total[s - 1];
    for (int64_t k = 0; k < piece; ++k) y[s * piece + k] += before;
    total[s] += before;
  }
#endif
  float last = total[STREAMS - 1];
  for (int64_t i = STREAMS * piece; i < n; ++i) y[i] = last += x[i];
  return 0;
}
