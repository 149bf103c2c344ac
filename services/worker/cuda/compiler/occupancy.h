#ifndef KERNELCAST_SERVICES_WORKER_CUDA_COMPILER_OCCUPANCY_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_COMPILER_OCCUPANCY_H_

#include <cstdint>
#include <optional>
#include <string_view>

namespace kernelcast::worker {

// Resources of a multiprocessor, from NVIDIA's tables of compute capabilities.
struct MultiprocessorLimits {
  int max_warps = 0;
  int max_blocks = 0;
  int64_t registers = 65'536;
  int64_t shared_bytes = 0;
  int64_t max_shared_bytes_per_block = 0;  // with the opt-in
  int64_t reserved_shared_bytes = 0;       // per block, reserved by the system
  int64_t shared_granularity_bytes = 128;
};

// Returns the limits of e.g. "sm_90", "sm_90a" or "sm_100f", or nullopt for an unknown
// architecture.
std::optional<MultiprocessorLimits> LimitsOf(std::string_view architecture);

struct Occupancy {
  int blocks = 0;         // per multiprocessor; 0: not even one fits
  double warp_share = 0;  // of the multiprocessor's warps, in [0, 1]
};

// Theoretical occupancy of blocks of `threads` threads with `registers` each. `shared_bytes` is
// static plus dynamic memory per block. Assumes the largest carve-out for shared memory.
Occupancy ComputeOccupancy(const MultiprocessorLimits& limits, int64_t threads, int64_t registers,
                           int64_t shared_bytes);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_COMPILER_OCCUPANCY_H_
