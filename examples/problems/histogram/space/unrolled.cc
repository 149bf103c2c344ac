// One set of counters; UNROLL values are loaded before their counters are touched.
#include <kernelcast/candidate.h>
#include <string.h>

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const int32_t* __restrict x = kc_data<int32_t>(inputs[0]);
  int32_t* __restrict y = kc_data<int32_t>(outputs[0]);
  const int64_t n = inputs[0].shape[0];
  memset(y, 0, outputs[0].shape[0] * sizeof(int32_t));
  int64_t i = 0;
  for (; i + UNROLL <= n; i += UNROLL) {
    int32_t value[UNROLL];
    for (int u = 0; u < UNROLL; ++u) value[u] = x[i + u];
#pragma GCC unroll 16
    for (int u = 0; u < UNROLL; ++u) ++y[value[u]];
  }
  for (; i < n; ++i) ++y[x[i]];
  return 0;
}
