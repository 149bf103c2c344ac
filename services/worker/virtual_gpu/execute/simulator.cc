#include "services/worker/virtual_gpu/execute/simulator.h"

#include <algorithm>
#include <string>
#include <type_traits>
#include <utility>

#include "services/worker/virtual_gpu/execute/launch_runner.h"

namespace kernelcast::worker::virtual_gpu {

namespace {

// Runs launches one after the other. `reason` is the field that says why a launch did not run.
template <class Result, class Run>
std::vector<Result> RunAll(const Program& program, std::span<const LaunchSpec> launches,
                           const SimulationLimits& limits, GlobalMemory& memory,
                           std::string Result::*reason, const Run& run) {
  std::vector<Result> all;
  int64_t left = limits.total_steps;
  bool known = true;  // whether earlier launches' outputs are known
  for (const LaunchSpec& launch : launches) {
    Result result;
    result.kernel = launch.kernel;
    const Kernel* kernel = program.Find(launch.kernel);
    if (static_cast<int64_t>(all.size()) >= limits.max_launches) {
      result.*reason = "more launches than the limit";
    } else if (kernel == nullptr) {
      result.*reason = "no such kernel in the PTX";
    } else if (!known) {
      result.*reason = "an earlier launch was not executed to its end";
    } else {
      SimulationLimits own = limits;
      own.launch_steps = std::min(limits.launch_steps, left);
      LaunchRunner runner(*kernel, launch, own, memory);
      result.*reason = runner.Prepare();
      if ((result.*reason).empty()) {
        result = run(runner);
        left -= result.steps;
      }
    }
    if constexpr (std::is_same_v<Result, LaunchCheck>) known = known && result.complete;
    all.push_back(std::move(result));
  }
  return all;
}

}  // namespace

std::vector<LaunchCounts> Simulate(const Program& program, std::span<const BufferSpec> buffers,
                                   std::span<const LaunchSpec> launches,
                                   const SimulationLimits& limits) {
  GlobalMemory memory(buffers, program);
  return Simulate(program, launches, limits, memory);
}

std::vector<LaunchCounts> Simulate(const Program& program, std::span<const LaunchSpec> launches,
                                   const SimulationLimits& limits, GlobalMemory& memory) {
  return RunAll(program, launches, limits, memory, &LaunchCounts::not_covered,
                [](LaunchRunner& runner) { return runner.Run(); });
}

std::vector<LaunchCheck> Check(const Program& program, std::span<const BufferSpec> buffers,
                               std::span<const LaunchSpec> launches,
                               const SimulationLimits& limits) {
  GlobalMemory memory(buffers, program);
  return Check(program, buffers, launches, limits, memory);
}

std::vector<LaunchCheck> Check(const Program& program, std::span<const BufferSpec> buffers,
                               std::span<const LaunchSpec> launches, const SimulationLimits& limits,
                               GlobalMemory& memory) {
  return RunAll(program, launches, limits, memory, &LaunchCheck::not_checked,
                [&](LaunchRunner& runner) { return runner.Check(program, buffers); });
}

}  // namespace kernelcast::worker::virtual_gpu
