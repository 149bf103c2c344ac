// Ends the process, in the way chosen by HOW, once it has been called AFTER times.
#include <kernelcast/candidate.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define SEGV 1
#define ABORT 2
#define EXIT_ZERO 3
#define EXIT_THREE 4
#define STACK 5
#define DIVIDE 6
#define ILLEGAL 7
#define THROW 8
#define HANG 9

static int calls = 0;

static int Deep(volatile char* p) {
  volatile char frame[4096];
  frame[0] = *p;
  return Deep(frame) + frame[1];
}

static float Map(float x) {
  float v = x;
  for (int step = 0; step < 40; ++step) v = 0.5f * v + 0.3f / (1 + v * v);
  return v + x / 16;
}

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const float* x = kc_data<float>(inputs[0]);
  float* y = kc_data<float>(outputs[0]);
  const int64_t n = inputs[0].shape[0] * inputs[0].shape[1];
  if (++calls > AFTER) {
    fprintf(stderr, "about to end\n");
#if HOW == SEGV
    *(volatile int*)8 = 1;
#elif HOW == ABORT
    abort();
#elif HOW == EXIT_ZERO
    _exit(0);
#elif HOW == EXIT_THREE
    exit(3);
#elif HOW == STACK
    volatile char c = 0;
    return Deep(&c);
#elif HOW == DIVIDE
    volatile int zero = 0;
    return 100 / zero;
#elif HOW == ILLEGAL
    __builtin_trap();
#elif HOW == THROW
    throw 1;
#elif HOW == HANG
    for (volatile int i = 0;; ++i) {
    }
#endif
  }
  for (int64_t i = 0; i < n; ++i) y[i] = Map(x[i]);
  return 0;
}
