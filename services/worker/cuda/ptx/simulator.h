#ifndef KERNELCAST_SERVICES_WORKER_CUDA_PTX_SIMULATOR_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_PTX_SIMULATOR_H_

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "services/worker/cuda/ptx/counters.h"
#include "services/worker/cuda/ptx/memory.h"
#include "services/worker/cuda/ptx/program.h"

namespace kernelcast::worker::ptx {

struct LaunchArgument {
  bool is_buffer = false;
  int buffer = 0;     // index among the buffers
  uint64_t bits = 0;  // of a scalar
  int bytes = 8;
};

struct LaunchSpec {
  std::string kernel;
  std::array<uint32_t, 3> grid = {1, 1, 1};
  std::array<uint32_t, 3> block = {1, 1, 1};
  int64_t dynamic_shared_bytes = 0;
  std::vector<LaunchArgument> arguments = {};

  double blocks() const {
    return static_cast<double>(grid[0]) * static_cast<double>(grid[1]) *
           static_cast<double>(grid[2]);
  }
  int64_t threads() const { return int64_t{block[0]} * block[1] * block[2]; }
};

struct SimulationLimits {
  // Instructions by warps that one launch may execute, and all launches of a candidate.
  int64_t launch_steps = 57'000;
  int64_t total_steps = 150'000;
  int64_t max_launches = 8;
  int64_t max_shared_bytes = 228 << 10;
  int64_t max_register_bytes = 64 << 20;  // of the warps of a block
};

// What a launch does as a whole, by what a few of its blocks did.
struct LaunchCounts {
  std::string kernel;
  // Empty, or why there is nothing else: what the virtual GPU cannot follow.
  std::string not_covered;
  Counters counters;  // of all blocks
  double blocks = 0;
  double warps = 0;         // of a block
  double block_cycles = 0;  // from a block's start to its end, if it were alone
  // Requests of atomics for the most wanted line of global memory, of all blocks.
  double hottest_global = 0;
  double hottest_shared = 0;  // atomics on the most wanted address in shared memory, of a block
  int sampled_blocks = 0;
  int sampled_warps = 0;
  int64_t steps = 0;  // executed
};

// Executes a few blocks of each launch, one launch after the other, on `memory`. Bounded by
// `limits` whatever the program.
std::vector<LaunchCounts> Simulate(const Program& program, std::span<const BufferSpec> buffers,
                                   std::span<const LaunchSpec> launches,
                                   const SimulationLimits& limits = {});

}  // namespace kernelcast::worker::ptx

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_PTX_SIMULATOR_H_
