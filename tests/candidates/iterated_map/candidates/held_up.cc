// Right, and at times slow for a while after a pause, whatever it is called on: as where the
// machine's host has given the core to another meanwhile.
#include <kernelcast/candidate.h>
#include <time.h>

static const int64_t kPauseNs = 20000000;
static const int64_t kHeldUpNs = 3000000;
static const int kHeldUpCalls = 8;

static int64_t last_ns = 0;
static int pauses = 0;
static int slow_calls = 0;

static int64_t NowNs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000000 + now.tv_nsec;
}

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const int64_t start_ns = NowNs();
  if (start_ns - last_ns > kPauseNs) {
    slow_calls = pauses++ % 3 == 2 ? 0 : kHeldUpCalls;
  }
  const float* x = kc_data<float>(inputs[0]);
  float* y = kc_data<float>(outputs[0]);
  const int64_t n = inputs[0].shape[0] * inputs[0].shape[1];
  for (int64_t i = 0; i < n; ++i) {
    float v = x[i];
    for (int step = 0; step < 40; ++step) v = 0.5f * v + 0.3f / (1 + v * v);
    y[i] = v + x[i] / 16;
  }
  if (slow_calls > 0) {
    --slow_calls;
    while (NowNs() - start_ns < kHeldUpNs) {
    }
  }
  last_ns = NowNs();
  return 0;
}
