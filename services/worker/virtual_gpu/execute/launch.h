#ifndef KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_EXECUTE_LAUNCH_H_
#define KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_EXECUTE_LAUNCH_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "services/worker/virtual_gpu/execute/checker.h"
#include "services/worker/virtual_gpu/execute/counters.h"

namespace kernelcast::worker::virtual_gpu {

struct LaunchArgument {
  bool is_buffer = false;
  int buffer = 0;     // index of the buffer
  uint64_t bits = 0;  // a scalar's value, or the offset in bytes into the buffer
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
  // Instructions (per warp) that one launch, and all launches of a candidate, may execute.
  int64_t launch_steps = 57'000;
  int64_t total_steps = 150'000;
  int64_t max_launches = 8;
  int64_t max_shared_bytes = 228 << 10;
  int64_t max_register_bytes = 64 << 20;  // of all warps of a block
};

// Counts for a whole launch, extrapolated from a sample of its blocks.
struct LaunchCounts {
  std::string kernel;
  // Empty, or the reason why there are no counts: something that the virtual GPU does not cover.
  std::string not_covered;
  Counters counters;  // of all blocks
  double blocks = 0;
  double warps = 0;         // per block
  double block_cycles = 0;  // from the start of a block to its end if it ran alone
  // Atomic requests for the most contended line of global memory, over all blocks.
  double hottest_global = 0;
  // Time in ns on an H200 that atomics keep the most contended line busy, over all blocks.
  double hottest_global_ns = 0;
  Waits waits = Waits::kNever;
  double static_instructions = 0;
  double local_bytes = 0;     // per thread, as declared in the PTX
  double hottest_shared = 0;  // per block: atomics at the most contended address of shared memory
  int sampled_blocks = 0;
  int sampled_warps = 0;
  int64_t steps = 0;  // executed
};

// Instructions (per warp) that all checks of a candidate may execute.
inline constexpr int64_t kCheckSteps = 800'000;
// Instructions that a check of a launch executes in a sample of its blocks, where not all can be.
inline constexpr int64_t kSampledSteps = 15'000;
// Returns the limits of a check when `steps_left` steps are left.
inline SimulationLimits CheckLimits(int64_t steps_left) {
  SimulationLimits limits;
  limits.launch_steps = steps_left;
  limits.total_steps = steps_left;
  return limits;
}

// Result of checking a launch for faults.
struct LaunchCheck {
  std::string kernel;
  std::vector<LaunchFinding> findings;
  std::string not_checked;  // empty, or what was not checked and why
  bool complete = false;    // whether all blocks were executed
  // Empty, or why the values that the launch wrote may differ from a GPU's.
  std::string approximate;

  // The same, also for launches that were not executed completely.
  std::string inexact() const {
    if (complete) return approximate;
    return not_checked.empty() ? "more steps than the limit" : not_checked;
  }
  int blocks = 0;  // number executed
  int64_t steps = 0;
};

}  // namespace kernelcast::worker::virtual_gpu

#endif  // KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_EXECUTE_LAUNCH_H_
