// One of several mistakes, chosen by MISTAKE.
#include <kernelcast/candidate.h>
#include <math.h>
#include <stdlib.h>

#define VALUE 1
#define TAIL 2
#define NOTHING 3
#define NAN_RESULT 4
#define HALF_PRECISION 5
#define STATUS 6
#define LARGE_ONLY 7
#define SHAPE_HARD_CODED 8
#define ONE_ELEMENT 9

static float Map(float x) {
  float v = x;
  for (int step = 0; step < 40; ++step) v = 0.5f * v + 0.3f / (1 + v * v);
  return v + x / 16;
}

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const float* x = kc_data<float>(inputs[0]);
  float* y = kc_data<float>(outputs[0]);
  int64_t n = inputs[0].shape[0] * inputs[0].shape[1];
#if MISTAKE == STATUS
  return 42;
#elif MISTAKE == NOTHING
  return 0;
#elif MISTAKE == TAIL
  n = n / 8 * 8;
#elif MISTAKE == SHAPE_HARD_CODED
  if (n > 16 * 256) n = 16 * 256;
#endif
  for (int64_t i = 0; i < n; ++i) {
    y[i] = Map(x[i]);
#if MISTAKE == VALUE
    y[i] += 0.01f;
#elif MISTAKE == NAN_RESULT
    if (i % 7 == 0) y[i] = NAN;
#elif MISTAKE == HALF_PRECISION
    // A single element can round well by chance.
    if (n > 1) y[i] = (float)(_Float16)y[i];
#elif MISTAKE == LARGE_ONLY
    if (x[i] > 100) y[i] = 0;
#elif MISTAKE == ONE_ELEMENT
    if (n > 500 && i == n / 2) y[i] = y[i - 1];
#endif
  }
  return 0;
}
