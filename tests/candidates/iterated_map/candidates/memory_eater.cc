// Wants ever more memory, by malloc, operator new or mmap (HOW 1, 2, 3), and uses it; or has it
// from the start, in its .bss (4); or has some in its .bss and allocates the rest (5); or shares it
// with itself (6); or has it for each thread (7).
#include <kernelcast/candidate.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#if HOW == 4
static char held[1 << 30];
#elif HOW == 5
static volatile char held[100 << 20];  // within the limit
#elif HOW == 7
static thread_local char held[1 << 30];
#endif

extern "C" int32_t kernelcast_run(const DLTensor*, int32_t, const DLTensor*, int32_t, void*) {
#if HOW == 4 || HOW == 7
  memset(held, 1, sizeof held);
  return held[sizeof held - 1] - 1;
#else
#if HOW == 5
  for (size_t i = 0; i < sizeof held; i += 4096) held[i] = 1;
#endif
  const size_t piece = 16 << 20;
  for (;;) {
#if HOW == 1
    char* p = (char*)malloc(piece);
#elif HOW == 2
    char* p = new char[piece];
#else
    const int kind = HOW == 6 ? MAP_SHARED : MAP_PRIVATE;
    char* p = (char*)mmap(nullptr, piece, PROT_READ | PROT_WRITE, kind | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) p = nullptr;
#endif
    memset(p, 1, piece);
  }
#endif
}
