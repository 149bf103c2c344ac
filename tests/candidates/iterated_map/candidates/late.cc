// Right and honest in its results, but its process runs on for a millisecond after some calls have
// been answered and it claims to sleep: LATE_CALLS of those after which the judge lets it rest. The
// words are the places of the shared block's fields.
#include <kernelcast/candidate.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

static float Map(float x) {
  float v = x;
  for (int step = 0; step < 40; ++step) v = 0.5f * v + 0.3f / (1 + v * v);
  return v + x / 16;
}

static volatile uint32_t* block = nullptr;
static int calls = 0;
static int rests = 0;

static volatile uint32_t* FindBlock() {
  const uintptr_t* word = (const uintptr_t*)__builtin_frame_address(0);
  for (int i = 0; i < 512; ++i) {
    const uintptr_t value = word[i];
    if (value == 0 || value % 4096 != 0) continue;
    if (write(1, (const void*)value, 4) == 4 && *(const uint32_t*)value == MARK) {
      return (volatile uint32_t*)value;
    }
  }
  return nullptr;
}

static int64_t NowNs() {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000000LL + now.tv_nsec;
}

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const float* x = kc_data<float>(inputs[0]);
  float* y = kc_data<float>(outputs[0]);
  const int64_t n = inputs[0].shape[0] * inputs[0].shape[1];
  if (++calls == 1) block = FindBlock();
  if (block == nullptr) return 7;
  for (int64_t i = 0; i < n; ++i) y[i] = Map(x[i]);

  if (block[LINGER_WORD] == 0 && ++rests <= LATE_CALLS) {
    __atomic_store_n(block + SLEEPS_WORD, 1, __ATOMIC_SEQ_CST);
    __atomic_store_n(block + DONE_WORD, block[SEQUENCE_WORD], __ATOMIC_SEQ_CST);
    for (const int64_t end_ns = NowNs() + 1000000; NowNs() < end_ns;) {
    }
  }
  return 0;
}
