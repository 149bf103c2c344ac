// Writes where it may not: WHERE 1 to an input, 2 just behind an output, 3 just before it, 4 to an
// input made writable first.
#include <kernelcast/candidate.h>
#include <stdint.h>
#include <sys/mman.h>

static float Map(float x) {
  float v = x;
  for (int step = 0; step < 40; ++step) v = 0.5f * v + 0.3f / (1 + v * v);
  return v + x / 16;
}

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  float* x = kc_data<float>(inputs[0]);
  float* y = kc_data<float>(outputs[0]);
  const int64_t n = inputs[0].shape[0] * inputs[0].shape[1];
  for (int64_t i = 0; i < n; ++i) y[i] = Map(x[i]);
#if WHERE == 1
  x[0] = 0;
#elif WHERE == 2
  y[n] = 0;
#elif WHERE == 3
  y[-1] = 0;
#elif WHERE == 4
  mprotect((void*)((uintptr_t)x & ~(uintptr_t)4095), 4096, PROT_READ | PROT_WRITE);
  x[0] = 0;
#endif
  return 0;
}
