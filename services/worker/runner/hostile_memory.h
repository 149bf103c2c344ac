#ifndef KERNELCAST_SERVICES_WORKER_RUNNER_HOSTILE_MEMORY_H_
#define KERNELCAST_SERVICES_WORKER_RUNNER_HOSTILE_MEMORY_H_

#include <cstdint>

namespace kernelcast::worker::runner {

// Words that fill memory before a checked call. Repeated, the first is 1.2e30 as float32 and 1e237
// as float64; the second is NaN as either.
inline constexpr uint32_t kFiniteWord = 0x71717171;
inline constexpr uint32_t kNanWord = 0x7ff87ff8;

// Overwrites the stack below the caller's frame.
void FillStack(uint32_t word);

// Overwrites memory that malloc returns next: takes, fills and frees blocks of each of its small
// sizes and of some larger ones. Blocks that malloc maps freshly from the system still hold zeros.
void FillHeap(uint32_t word);

}  // namespace kernelcast::worker::runner

#endif  // KERNELCAST_SERVICES_WORKER_RUNNER_HOSTILE_MEMORY_H_
