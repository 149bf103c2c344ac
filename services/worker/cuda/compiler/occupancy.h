#ifndef KERNELCAST_SERVICES_WORKER_CUDA_COMPILER_OCCUPANCY_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_COMPILER_OCCUPANCY_H_

#include <cstdint>
#include <optional>
#include <string_view>

namespace kernelcast::worker {

// What a multiprocessor has to give to blocks, by NVIDIA's tables of compute capabilities.
struct MultiprocessorLimits {
  int max_warps = 0;
  int max_blocks = 0;
  int64_t registers = 65'536;
  int64_t shared_bytes = 0;
  int64_t max_shared_bytes_per_block = 0;  // with the opt-in
  int64_t reserved_shared_bytes = 0;       // of each block, for the system
  int64_t shared_granularity_bytes = 128;
};

// Of "sm_90", "sm_90a" or "sm_100f". Nothing for an architecture that is not known here.
std::optional<MultiprocessorLimits> LimitsOf(std::string_view architecture);

struct Occupancy {
  int blocks = 0;         // resident on a multiprocessor; 0: not even one fits
  double warp_share = 0;  // of the multiprocessor's warps, in [0, 1]
};

// Theoretical occupancy of blocks of `threads` threads with `registers` each and `shared_bytes`,
// static and dynamic, a block. Takes the largest carve-out for shared memory.
Occupancy ComputeOccupancy(const MultiprocessorLimits& limits, int64_t threads, int64_t registers,
                           int64_t shared_bytes);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_COMPILER_OCCUPANCY_H_
