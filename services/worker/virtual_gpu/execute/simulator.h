#ifndef KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_EXECUTE_SIMULATOR_H_
#define KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_EXECUTE_SIMULATOR_H_

#include <span>
#include <vector>

#include "services/worker/virtual_gpu/execute/launch.h"
#include "services/worker/virtual_gpu/execute/memory.h"
#include "services/worker/virtual_gpu/program.h"

namespace kernelcast::worker::virtual_gpu {

// Executes a sample of the blocks of each launch, one launch after the other. Bounded by `limits`
// for any program.
std::vector<LaunchCounts> Simulate(const Program& program, std::span<const BufferSpec> buffers,
                                   std::span<const LaunchSpec> launches,
                                   const SimulationLimits& limits = {});

// The same on `memory`, which keeps what the launches write.
std::vector<LaunchCounts> Simulate(const Program& program, std::span<const LaunchSpec> launches,
                                   const SimulationLimits& limits, GlobalMemory& memory);

// Executes the launches one after the other and reports their faults; see Checker. Nothing is
// inferred, so use small shapes. A launch is checked only if all earlier ones were executed
// completely, since it may depend on what they write.
std::vector<LaunchCheck> Check(const Program& program, std::span<const BufferSpec> buffers,
                               std::span<const LaunchSpec> launches,
                               const SimulationLimits& limits);

// The same on `memory`, which was made for `buffers` and keeps what the launches write.
std::vector<LaunchCheck> Check(const Program& program, std::span<const BufferSpec> buffers,
                               std::span<const LaunchSpec> launches, const SimulationLimits& limits,
                               GlobalMemory& memory);

}  // namespace kernelcast::worker::virtual_gpu

#endif  // KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_EXECUTE_SIMULATOR_H_
