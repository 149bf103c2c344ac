#include "services/worker/runner/hostile_memory.h"

#include <cstddef>
#include <cstdlib>

namespace kernelcast::worker::runner {
namespace {

constexpr size_t kStackWords = (128 << 10) / sizeof(uint32_t);
// glibc keeps up to seven freed blocks of each size up to 1032 bytes, in steps of 16.
constexpr size_t kSmallest = 24;
constexpr size_t kLargestSmall = 1032;
constexpr size_t kStep = 16;
constexpr size_t kKept = 7;
// Smaller than the size from which malloc maps separate blocks.
constexpr size_t kLarger[] = {2 << 10, 8 << 10, 32 << 10, 96 << 10};

void Fill(volatile uint32_t* words, size_t count, uint32_t word) {
  for (size_t i = 0; i < count; ++i) words[i] = word;
}

void* Filled(size_t bytes, uint32_t word) {
  void* const block = malloc(bytes);
  if (block != nullptr) Fill(static_cast<volatile uint32_t*>(block), bytes / sizeof(word), word);
  return block;
}

}  // namespace

__attribute__((noinline)) void FillStack(uint32_t word) {
  volatile uint32_t words[kStackWords];
  Fill(words, kStackWords, word);
}

void FillHeap(uint32_t word) {
  for (size_t bytes = kSmallest; bytes <= kLargestSmall; bytes += kStep) {
    void* blocks[kKept];
    for (void*& block : blocks) block = Filled(bytes, word);
    for (void* block : blocks) free(block);
  }
  void* blocks[sizeof(kLarger) / sizeof(kLarger[0])];
  size_t count = 0;
  for (const size_t bytes : kLarger) blocks[count++] = Filled(bytes, word);
  while (count > 0) free(blocks[--count]);
}

}  // namespace kernelcast::worker::runner
