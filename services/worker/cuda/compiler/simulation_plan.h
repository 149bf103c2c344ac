#ifndef KERNELCAST_SERVICES_WORKER_CUDA_COMPILER_SIMULATION_PLAN_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_COMPILER_SIMULATION_PLAN_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/domain/candidate.h"
#include "common/domain/problem.h"
#include "services/worker/cuda/compiler/cubin.h"
#include "services/worker/virtual_gpu/estimate/estimate.h"
#include "services/worker/virtual_gpu/execute/launch.h"

namespace kernelcast::worker {

struct SimulatedCase;  // simulated_outputs.h

// Input of the virtual GPU for a device CUDA program at one shape, in addition to its PTX.
struct SimulationPlan {
  // The problem's inputs, its outputs, and the workspace if there is one.
  std::vector<virtual_gpu::BufferSpec> buffers;
  std::vector<virtual_gpu::LaunchSpec> launches;
  std::vector<virtual_gpu::LaunchResources> resources;  // per launch, from the cubin
  std::string shape = {};                               // for messages
  // The case whose expected outputs those of the launches are compared with; must outlive the plan.
  // Null: they are not compared.
  const SimulatedCase* compared = nullptr;
};

// Shapes at which launches are checked for faults: the problem's check shapes and some held-out
// ones, smallest first, because checking infers nothing. Deterministic for a problem. Empty
// if files give inputs: the virtual GPU does not read them, and other values may be invalid.
inline constexpr size_t kMaxCheckedShapes = 8;
std::vector<AxisValues> ShapesToCheck(const Problem& problem, const ProblemTarget& target);

// Inputs are drawn from the problem's declared distributions; other buffers are zero. Scalars have
// their true values. INVALID_ARGUMENT: as PlanLaunches, or an input's distribution has no value at
// the shape.
[[nodiscard]] absl::StatusOr<SimulationPlan> PlanSimulation(
    const Problem& problem, const std::vector<Launch>& launches, const std::string& workspace_bytes,
    const std::vector<Tunable>& tunables, const AxisValues& axes, const Cubin& cubin);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_COMPILER_SIMULATION_PLAN_H_
