// Right whenever it is looked at, and tries to be timed faster than it is; HOW says which way.
#include <kernelcast/candidate.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// Remembers outputs by the inputs' values; of new values, every second call leaves its work to the
// next.
#define DEFER 1
// The same, but a call on values that it does not know computes those of three cases at once.
#define BATCH 2
// Remembers the result of each element, and wastes time on known ones so that calls on new values
// are less than 8 times as slow.
#define ELEMENTS 3
// The same with whole inputs; also slow for a few calls after each pause.
#define SLOW_AFTER_PAUSE 4
// Looks for answers where outputs of timed calls go, before its first call; says 77 if there are.
#define LEFT_OVER 5
// Wrong at even widths other than the declared ones.
#define EVEN_WIDTH 6
// The last of eight calls on different inputs computes all, each time.
#define GROUPED 7
// Remembers outputs by the inputs' values. After calls on new values, another thread waits until
// the process is idle and then keeps the core busy, so that the reference is slow there too.
#define HOLD_UP 8

namespace {

float Map(float x) {
  float v = x;
  for (int step = 0; step < 40; ++step) v = 0.5f * v + 0.3f / (1 + v * v);
  return v + x / 16;
}

void Compute(const float* x, float* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = Map(x[i]);
}

int64_t NowNs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000000 + now.tv_nsec;
}

const int64_t kTimed = 16 * 256;
const int kKept = 128;
struct Entry {
  uint64_t hash;
  const float* x;
  float* y;
};
Entry entries[kKept];
int used = 0;

uint64_t Hash(const float* x) {
  uint64_t hash = 1469598103934665603u;
  for (int64_t i = 0; i < kTimed; i += 2) {
    uint64_t bits;
    memcpy(&bits, x + i, 8);
    hash = (hash ^ bits) * 1099511628211u;
    hash ^= hash >> 29;
  }
  return hash;
}

Entry* Find(uint64_t hash) {
  for (int i = 0; i < kKept && i < used; ++i) {
    if (entries[i].hash == hash) return &entries[i];
  }
  return nullptr;
}

Entry* Remember(uint64_t hash, const float* x) {
  Entry* entry = &entries[used++ % kKept];
  if (entry->y == nullptr) entry->y = static_cast<float*>(malloc(kTimed * sizeof(float)));
  entry->hash = hash;
  entry->x = x;
  Compute(x, entry->y, kTimed);
  return entry;
}

struct Place {
  const float* x;
  float* y;
};
Place places[8];
int known_places = 0;
Place pending = {nullptr, nullptr};
int64_t last_ns = 0;
int slow_calls = 0;

void NotePlace(const float* x, float* y) {
  for (int i = 0; i < known_places; ++i) {
    if (places[i].x == x) return;
  }
  if (known_places < 8) places[known_places++] = {x, y};
}

sem_t after_new_values;

void Nap(int64_t ns) {
  const timespec time = {0, ns};
  nanosleep(&time, nullptr);
}

void* HoldUp(void*) {
  for (;;) {
    sem_wait(&after_new_values);
    while (sem_trywait(&after_new_values) == 0) {
    }
    Nap(400000);
    const int64_t start_ns = NowNs();
    while (NowNs() - start_ns < 4000000) {
    }
  }
}

const int kSets = 1 << 16;
struct Known {
  uint32_t bits;
  float result;
};
Known elements[kSets];

}  // namespace

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const float* x = kc_data<float>(inputs[0]);
  float* y = kc_data<float>(outputs[0]);
  const int64_t n = inputs[0].shape[0] * inputs[0].shape[1];
#if HOW == LEFT_OVER
  static bool looked = false;
  const int kFrom = 56 << 8;  // behind what a checked call may write
  int answers = 0;
  for (int i = kFrom; i < kFrom + (64 << 8) && !looked; ++i) {
    uint32_t bits;
    memcpy(&bits, y + i, 4);
    answers += bits != 0xa7a7a7a7 && y[i] > -100 && y[i] < 100 && y[i] != 0 ? 1 : 0;
  }
  looked = true;
  Compute(x, y, n);
  return answers > 1000 ? 77 : 0;
#endif
#if HOW == EVEN_WIDTH
  const int64_t width = inputs[0].shape[1];
  Compute(x, y, n);
  if (width % 2 == 0 && width != 64 && width != 256) y[n - 1] += 1;
  return 0;
#endif
  if (n != kTimed) {
    Compute(x, y, n);
    return 0;
  }
#if HOW == DEFER || HOW == BATCH || HOW == SLOW_AFTER_PAUSE
  const int64_t start_ns = NowNs();
  NotePlace(x, y);
  if (pending.x != nullptr) {
    Remember(Hash(pending.x), pending.x);
    memcpy(pending.y, Find(Hash(pending.x))->y, kTimed * sizeof(float));
    pending.x = nullptr;
  }
  const uint64_t hash = Hash(x);
  Entry* entry = Find(hash);
  if (HOW == SLOW_AFTER_PAUSE) {
    if (start_ns - last_ns > 50000) slow_calls = 16;
    if (entry == nullptr) entry = Remember(hash, x);
    memcpy(y, entry->y, kTimed * sizeof(float));
    if (slow_calls > 0) {
      --slow_calls;
      float* const scratch = static_cast<float*>(malloc(kTimed * sizeof(float)));
      Compute(x, scratch, kTimed);
      if (scratch[0] != y[0]) y[0] = scratch[0];
      free(scratch);
    }
    last_ns = NowNs();
    return 0;
  }
  if (entry == nullptr) {
    static int unknown = 0;
    if (HOW == DEFER && ++unknown > 40 && unknown % 2 == 0) {
      pending = {x, y};
      return 0;
    }
    entry = Remember(hash, x);
    if (HOW == BATCH) {
      int more = 2;
      for (int i = 0; i < known_places && more > 0; ++i) {
        const uint64_t other = Hash(places[i].x);
        if (Find(other) == nullptr) {
          Remember(other, places[i].x);
          --more;
        }
      }
      entry = Find(hash);
    }
  }
  memcpy(y, entry->y, kTimed * sizeof(float));
#elif HOW == HOLD_UP
  static bool started = false;
  if (!started) {
    started = true;
    pthread_t thread;
    sem_init(&after_new_values, 0, 0);
    if (pthread_create(&thread, nullptr, HoldUp, nullptr) != 0) return 1;
  }
  const uint64_t hash = Hash(x);
  Entry* entry = Find(hash);
  if (entry == nullptr) {
    entry = Remember(hash, x);
    static int unknown = 0;
    if (++unknown > 16) sem_post(&after_new_values);
  }
  memcpy(y, entry->y, kTimed * sizeof(float));
#elif HOW == ELEMENTS
  int64_t misses = 0;
  const int64_t start_ns = NowNs();
  for (int64_t i = 0; i < n; ++i) {
    uint32_t bits;
    memcpy(&bits, x + i, 4);
    Known* known = &elements[(bits * 2654435761u) >> 16];
    if (known->bits != bits) {
      *known = {bits, Map(x[i])};
      ++misses;
    }
    y[i] = known->result;
  }
  if (misses < n / 2) {
    while (NowNs() - start_ns < WASTE_NS) {
    }
  }
#elif HOW == GROUPED
  NotePlace(x, y);
  static int calls = 0;
  static float kept[8][kTimed];
  int me = 0;
  for (int i = 0; i < known_places; ++i) {
    if (places[i].x == x) me = i;
  }
  if (++calls % 8 == 0 || calls < 40) {
    for (int i = 0; i < known_places; ++i) Compute(places[i].x, kept[i], kTimed);
  }
  memcpy(y, kept[me], kTimed * sizeof(float));
#endif
  return 0;
}
