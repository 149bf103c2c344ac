// Tries to be timed faster than it is; HOW says which way.
#include <kernelcast/candidate.h>
#include <stdlib.h>
#include <string.h>

#define CACHE_BY_POINTER 1
#define CACHE_BY_VALUE 2
#define SKIP_AFTER_WARM_UP 3
#define HALF_THE_WORK 4
#define ONLY_WHERE_POISONED 5
#define WRONG_WHEN_TIMED 6

static float Map(float x) {
  float v = x;
  for (int step = 0; step < 40; ++step) v = 0.5f * v + 0.3f / (1 + v * v);
  return v + x / 16;
}

struct Entry {
  const float* x;
  uint64_t hash;
  int64_t n;
  float* y;
};
static Entry entries[256];
static int used = 0;
static int calls = 0;

static uint64_t Hash(const float* x, int64_t n) {
  uint64_t hash = 1469598103934665603u;
  for (int64_t i = 0; i < n; i += 16) {
    uint32_t bits;
    memcpy(&bits, x + i, 4);
    hash = (hash ^ bits) * 1099511628211u;
  }
  return hash;
}

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const float* x = kc_data<float>(inputs[0]);
  float* y = kc_data<float>(outputs[0]);
  const int64_t n = inputs[0].shape[0] * inputs[0].shape[1];
  ++calls;
#if HOW == CACHE_BY_POINTER || HOW == CACHE_BY_VALUE
  const uint64_t hash = HOW == CACHE_BY_VALUE ? Hash(x, n) : 0;
  for (int i = 0; i < used; ++i) {
    if (entries[i].x == x && entries[i].n == n && entries[i].hash == hash) {
      memcpy(y, entries[i].y, n * sizeof(float));
      return 0;
    }
  }
  for (int64_t i = 0; i < n; ++i) y[i] = Map(x[i]);
  if (used < 256) {
    float* copy = (float*)malloc(n * sizeof(float));
    memcpy(copy, y, n * sizeof(float));
    entries[used++] = {x, hash, n, copy};
  }
  return 0;
#elif HOW == SKIP_AFTER_WARM_UP
  if (calls > 100) return 0;
  for (int64_t i = 0; i < n; ++i) y[i] = Map(x[i]);
#elif HOW == HALF_THE_WORK
  const int64_t work = calls > 100 ? n / 2 : n;
  for (int64_t i = 0; i < work; ++i) y[i] = Map(x[i]);
#elif HOW == ONLY_WHERE_POISONED
  // Repairs what does not look like data.
  for (int64_t i = 0; i < n; ++i) {
    if (calls < 100 || y[i] != y[i] || y[i] > 1e3f || y[i] < -1e3f) y[i] = Map(x[i]);
  }
#elif HOW == WRONG_WHEN_TIMED
  for (int64_t i = 0; i < n; ++i) {
    float v = x[i];
    const int steps = calls > 100 ? 4 : 40;
    for (int step = 0; step < steps; ++step) v = 0.5f * v + 0.3f / (1 + v * v);
    y[i] = v + x[i] / 16;
  }
#endif
  return 0;
}
