#include "services/worker/virtual_gpu/execute/simulator.h"

#include <algorithm>
#include <utility>

#include "services/worker/virtual_gpu/execute/launch_runner.h"

namespace kernelcast::worker::virtual_gpu {

std::vector<LaunchCounts> Simulate(const Program& program, std::span<const BufferSpec> buffers,
                                   std::span<const LaunchSpec> launches,
                                   const SimulationLimits& limits) {
  GlobalMemory memory(buffers, program);
  return Simulate(program, launches, limits, memory);
}

std::vector<LaunchCounts> Simulate(const Program& program, std::span<const LaunchSpec> launches,
                                   const SimulationLimits& limits, GlobalMemory& memory) {
  std::vector<LaunchCounts> all;
  int64_t left = limits.total_steps;
  for (const LaunchSpec& launch : launches) {
    LaunchCounts counts;
    counts.kernel = launch.kernel;
    const Kernel* kernel = program.Find(launch.kernel);
    if (static_cast<int64_t>(all.size()) >= limits.max_launches) {
      counts.not_covered = "more launches than the limit";
    } else if (kernel == nullptr) {
      counts.not_covered = "no such kernel in the PTX";
    } else {
      SimulationLimits own = limits;
      own.launch_steps = std::min(limits.launch_steps, left);
      LaunchRunner runner(*kernel, launch, own, memory);
      counts.not_covered = runner.Prepare();
      if (counts.not_covered.empty()) {
        counts = runner.Run();
        left -= counts.steps;
      }
    }
    all.push_back(std::move(counts));
  }
  return all;
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
  std::vector<LaunchCheck> all;
  int64_t left = limits.total_steps;
  bool known = true;  // whether earlier launches' outputs are known
  for (const LaunchSpec& launch : launches) {
    LaunchCheck check;
    check.kernel = launch.kernel;
    const Kernel* kernel = program.Find(launch.kernel);
    if (static_cast<int64_t>(all.size()) >= limits.max_launches) {
      check.not_checked = "more launches than the limit";
    } else if (kernel == nullptr) {
      check.not_checked = "no such kernel in the PTX";
    } else if (!known) {
      check.not_checked = "an earlier launch was not executed to its end";
    } else {
      SimulationLimits own = limits;
      own.launch_steps = std::min(limits.launch_steps, left);
      LaunchRunner runner(*kernel, launch, own, memory);
      check.not_checked = runner.Prepare();
      if (check.not_checked.empty()) {
        check = runner.Check(program, buffers);
        left -= check.steps;
      }
    }
    known = known && check.complete;
    all.push_back(std::move(check));
  }
  return all;
}

}  // namespace kernelcast::worker::virtual_gpu
