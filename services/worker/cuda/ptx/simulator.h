#ifndef KERNELCAST_SERVICES_WORKER_CUDA_PTX_SIMULATOR_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_PTX_SIMULATOR_H_

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "services/worker/cuda/ptx/checker.h"
#include "services/worker/cuda/ptx/counters.h"
#include "services/worker/cuda/ptx/memory.h"
#include "services/worker/cuda/ptx/program.h"

namespace kernelcast::worker::ptx {

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

// Executes a sample of the blocks of each launch, one launch after the other. Bounded by `limits`
// for any program.
std::vector<LaunchCounts> Simulate(const Program& program, std::span<const BufferSpec> buffers,
                                   std::span<const LaunchSpec> launches,
                                   const SimulationLimits& limits = {});

// The same on `memory`, which keeps what the launches write.
std::vector<LaunchCounts> Simulate(const Program& program, std::span<const LaunchSpec> launches,
                                   const SimulationLimits& limits, GlobalMemory& memory);

// Instructions (per warp) that all checks of a candidate may execute.
inline constexpr int64_t kCheckSteps = 30'000;
// Returns the limits of a check when `steps_left` steps are left.
inline SimulationLimits CheckLimits(int64_t steps_left) {
  SimulationLimits limits;
  limits.launch_steps = kCheckSteps / 2;
  limits.total_steps = steps_left;
  return limits;
}

// Result of checking a launch for faults.
struct LaunchCheck {
  std::string kernel;
  std::vector<LaunchFinding> findings;
  std::string not_checked;  // empty, or what was not checked and why
  bool complete = false;    // whether all blocks were executed
  int blocks = 0;           // number executed
  int64_t steps = 0;
};

// Executes the launches one after the other and reports their faults; see Checker. Nothing is
// inferred, so use small shapes. A launch is checked only if all earlier ones were executed
// completely, since it may depend on what they write.
std::vector<LaunchCheck> Check(const Program& program, std::span<const BufferSpec> buffers,
                               std::span<const LaunchSpec> launches,
                               const SimulationLimits& limits);

}  // namespace kernelcast::worker::ptx

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_PTX_SIMULATOR_H_
