#ifndef KERNELCAST_SERVICES_WORKER_CUDA_COMPILER_SIMULATION_PLAN_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_COMPILER_SIMULATION_PLAN_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/domain/candidate.h"
#include "common/domain/problem.h"
#include "services/worker/cuda/compiler/cubin.h"
#include "services/worker/cuda/ptx/estimate.h"
#include "services/worker/cuda/ptx/simulator.h"

namespace kernelcast::worker {

// What the virtual GPU needs to know of a device CUDA program at one shape, beside its PTX.
struct SimulationPlan {
  // The problem's inputs, its outputs, and the workspace if there is one.
  std::vector<ptx::BufferSpec> buffers;
  std::vector<ptx::LaunchSpec> launches;
  std::vector<ptx::LaunchResources> resources;  // of each launch, by the cubin
};

// Inputs have values of the problem's declared distributions, whatever else is zero; scalars have
// their true values. INVALID_ARGUMENT as of PlanLaunches, or where an input's distribution has no
// value at the shape.
[[nodiscard]] absl::StatusOr<SimulationPlan> PlanSimulation(
    const Problem& problem, const std::vector<Launch>& launches, const std::string& workspace_bytes,
    const std::vector<Tunable>& tunables, const AxisValues& axes, const Cubin& cubin);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_COMPILER_SIMULATION_PLAN_H_
