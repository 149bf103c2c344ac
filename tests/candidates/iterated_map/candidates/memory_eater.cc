// Wants ever more memory, by malloc, operator new or mmap (HOW 1, 2, 3), and uses it; or has it
// from the start, in its .bss (4).
#include <kernelcast/candidate.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#if HOW == 4
static char held[1 << 30];
#endif

extern "C" int32_t kernelcast_run(const DLTensor*, int32_t, const DLTensor*, int32_t, void*) {
#if HOW == 4
  memset(held, 1, sizeof held);
  return held[sizeof held - 1] - 1;
#else
  const size_t piece = 16 << 20;
  for (;;) {
#if HOW == 1
    char* p = (char*)malloc(piece);
#elif HOW == 2
    char* p = new char[piece];
#else
    char* p =
        (char*)mmap(nullptr, piece, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) p = nullptr;
#endif
    memset(p, 1, piece);
  }
#endif
}
