#ifndef KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_EXECUTE_LAUNCH_RUNNER_H_
#define KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_EXECUTE_LAUNCH_RUNNER_H_

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "services/worker/virtual_gpu/execute/counters.h"
#include "services/worker/virtual_gpu/execute/footprint.h"
#include "services/worker/virtual_gpu/execute/launch.h"
#include "services/worker/virtual_gpu/execute/memory.h"
#include "services/worker/virtual_gpu/execute/warp.h"
#include "services/worker/virtual_gpu/program.h"

namespace kernelcast::worker::virtual_gpu {

// Executes blocks of one launch.
class LaunchRunner {
 public:
  // All arguments must outlive the runner.
  LaunchRunner(const Kernel& kernel, const LaunchSpec& launch, const SimulationLimits& limits,
               GlobalMemory& memory)
      : kernel_(kernel), launch_(launch), limits_(limits), memory_(memory) {}

  // Returns why the launch cannot be executed, or "". Call it once, before Run or Check.
  std::string Prepare();

  // Executes a sample of the blocks and infers the counts of the others.
  LaunchCounts Run();

  // Executes blocks with all their warps and no inference: all blocks in order if the steps
  // suffice, otherwise the first ones, the last ones and some in between.
  LaunchCheck Check(const Program& program, std::span<const BufferSpec> buffers);

 private:
  struct BlockResult {
    Outcome outcome = Outcome::kDone;
    Counters counters;  // of the block
    double cycles = 0;
    double hottest_shared = 0;
    Waits waits = Waits::kNever;
    int warps = 0;  // executed
  };
  struct Position {
    std::array<uint32_t, 3> at = {0, 0, 0};
    double weight = 1;
    friend bool operator==(const Position& a, const Position& b) { return a.at == b.at; }
  };

  void Sample(LaunchCounts& counts);
  bool InOrder(const GlobalMemory& before, int64_t block_steps, LaunchCounts& counts);
  // Call it before the warp's first instruction: an abandoned block has warps that never start. The
  // registers of large programs take many megabytes, so values that no program may rely on are left
  // from an earlier block, and constants stay in place.
  void Begin(Warp& w, const std::array<uint32_t, 3>& at);
  uint64_t ValueOf(const SlotValue& value, const std::array<uint32_t, 3>& at, int warp, int lane,
                   int64_t thread) const;
  BlockResult RunBlock(const std::array<uint32_t, 3>& at, int64_t budget, int wanted);
  uint32_t MaskOf(int index) const;
  Outcome RunWarps(const std::array<uint32_t, 3>& at, int64_t& left);
  // Gives a warp the result of the barrier that has opened.
  void Reduce(Warp& w) const;

  const Kernel& kernel_;
  const LaunchSpec& launch_;
  const SimulationLimits& limits_;
  GlobalMemory& memory_;
  int warps_ = 0;
  int max_warps_ = 0;
  int64_t steps_left_ = 0;
  std::vector<uint8_t> parameters_;
  BlockState block_;
  AddressCounts atomics_;
  AddressCounts atomic_ns_;
  PublishedWords published_;
  std::vector<Warp> warps_state_;
};

}  // namespace kernelcast::worker::virtual_gpu

#endif  // KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_EXECUTE_LAUNCH_RUNNER_H_
