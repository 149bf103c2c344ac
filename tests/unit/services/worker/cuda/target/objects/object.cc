// Host-launched candidates for the fake driver, whose device memory is the process's own: y = 2 x +
// 1 and its faults. One object for each value of OBJECT_CASE.

#include <fcntl.h>
#include <kernelcast/candidate.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <unistd.h>

#define RIGHT 0
#define WRONG 1
#define FAILS 2
#define EXITS 3
#define DIES 4
#define HANGS 5
#define WRITES_INPUT 6
#define WRITES_BESIDE 7
#define ANSWERS 8
#define REACHES_OUT 9
#define CONSTRUCTED 10
#define DIES_EARLY 11
#define WRONG_TENSORS 12
#define HOLDS_DATA 13
#define GROWS_BESIDE_DATA 14
#define SHARES_MEMORY 15
#define EXPECTS_NEW_FILL 16

namespace {

int constructed = 0;

struct Early {
  Early() {
    constructed = 1;
    if (OBJECT_CASE == DIES_EARLY) {
      _exit(5);
    }
  }
} early;

#if OBJECT_CASE == HOLDS_DATA
volatile char data[512 << 20];
#elif OBJECT_CASE == GROWS_BESIDE_DATA
volatile char data[200 << 20];
#else
volatile char data[1];
#endif

void FillData() {
  for (size_t i = 0; i < sizeof(data); i += 4096) data[i] = 1;
}

// Returns 0 if no more private memory is granted than the limit of the test (256 MiB) in all.
int32_t GrowBesideData() {
  FillData();
  void* volatile const memory = malloc(100 << 20);
  return memory == nullptr ? 0 : 8;
}

int32_t ShareMemory() {
  const size_t bytes = size_t{4} << 30;
  void* const memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 8;
  memset(memory, 1, bytes);
  return 0;
}

// Returns a status if an output held the same in six calls in a row. There are 49 fills of NaN.
int32_t CompareFill(const float* y) {
  static struct {
    const float* y;
    uint32_t fill;
    int repeats;
  } outputs[64];
  uint32_t fill = 0;
  memcpy(&fill, y, sizeof(fill));
  for (auto& output : outputs) {
    if (output.y != nullptr && output.y != y) continue;
    output.repeats = output.y == y && output.fill == fill ? output.repeats + 1 : 0;
    output.y = y;
    output.fill = fill;
    return output.repeats == 5 ? 10 : 0;
  }
  return 11;
}

void* Nothing(void*) { return nullptr; }

// Returns as a status any access that the sandbox should have refused.
int32_t ReachOut() {
  if (open("/etc/passwd", O_RDONLY) >= 0) return 1;
  if (open("/dev/null", O_WRONLY) >= 0) return 2;
  if (socket(AF_INET, SOCK_STREAM, 0) >= 0) return 3;
  if (fork() >= 0) return 4;
  pthread_t thread;
  if (pthread_create(&thread, nullptr, Nothing, nullptr) == 0) return 5;
  if (kill(getppid(), 0) == 0) return 6;
  if (memfd_create("memory", 0) >= 0) return 7;
  if (shmget(IPC_PRIVATE, 4096, 0600) >= 0) return 8;
  char name[] = "/bin/true";
  char* arguments[] = {name, nullptr};
  execve(name, arguments, nullptr);
  return 0;
}

}  // namespace

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t num_inputs,
                                  const DLTensor* outputs, int32_t num_outputs, void* stream) {
  if (OBJECT_CASE == WRONG_TENSORS &&
      (num_inputs != 1 || num_outputs != 1 || stream == nullptr || inputs[0].ndim != 1 ||
       inputs[0].device.device_type != kDLCUDA || inputs[0].dtype.code != kDLFloat ||
       inputs[0].dtype.bits != 32 || outputs[0].shape[0] != inputs[0].shape[0])) {
    return 77;
  }
  const int64_t n = inputs[0].shape[0];
  const float* x = kc_data<const float>(inputs[0]);
  float* y = kc_data<float>(outputs[0]);
  if (OBJECT_CASE == EXPECTS_NEW_FILL) {
    const int32_t status = CompareFill(y);
    if (status != 0) return status;
    usleep(1000);
  }
  for (int64_t i = 0; i < n; ++i) {
    y[i] = 2 * x[i] + (OBJECT_CASE == WRONG ? 2.0f : 1.0f);
  }
  switch (OBJECT_CASE) {
    case FAILS: return 9;
    case EXITS: exit(0);
    case DIES: abort();
    case HANGS:
      for (volatile int forever = 1; forever;) {
      }
    case WRITES_INPUT: const_cast<float*>(x)[0] = 0; break;
    case WRITES_BESIDE: y[n] = 1; break;
    case ANSWERS: {
      char reply[96];
      memset(reply, 0, sizeof(reply));
      return write(3, reply, sizeof(reply)) < 0 ? 1 : 0;
    }
    case REACHES_OUT: return ReachOut();
    case HOLDS_DATA: FillData(); break;
    case GROWS_BESIDE_DATA: return GrowBesideData();
    case SHARES_MEMORY: return ShareMemory();
    case CONSTRUCTED: return constructed == 1 ? 0 : 1;
    default: break;
  }
  return 0;
}
