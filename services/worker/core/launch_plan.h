#ifndef KERNELCAST_SERVICES_WORKER_CORE_LAUNCH_PLAN_H_
#define KERNELCAST_SERVICES_WORKER_CORE_LAUNCH_PLAN_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/domain/candidate.h"
#include "common/domain/launch_geometry.h"
#include "common/domain/problem.h"

namespace kernelcast::worker {

// One argument of a kernel.
struct KernelArgument {
  enum class Kind { kTensor, kWorkspace, kScalar };
  Kind kind = Kind::kScalar;
  // Tensors: index into the problem's inputs followed by its outputs.
  int tensor = 0;
  // Workspace: offset in bytes from its start.
  int64_t offset = 0;
  // Scalars: the value as the kernel reads it, in the first `bytes` bytes.
  ScalarType type = ScalarType::kInt64;
  std::array<std::byte, 8> bits = {};
  // Size of the argument: 1, 2, 4 or 8. Tensors and the workspace are passed as addresses.
  size_t bytes = 8;
};

struct PlannedLaunch : LaunchGeometry {
  std::string kernel;
  size_t index = 0;  // in the program's launches
  std::vector<KernelArgument> arguments;
};

// Launches with all expressions evaluated, without those left out at the shape.
struct LaunchPlan {
  std::vector<PlannedLaunch> launches;
  int64_t workspace_bytes = 0;
};

// Evaluates the launches of a device CUDA program at one shape. Pure. Returns INVALID_ARGUMENT with
// launches[i].field, the value and what is allowed when a field is not an expression over axes and
// integer tunables, its value is beyond CUDA's limits, an argument does not exist in the problem,
// there are too many launches or arguments, or no launch takes place.
[[nodiscard]] absl::StatusOr<LaunchPlan> PlanLaunches(const Problem& problem,
                                                      const std::vector<Launch>& launches,
                                                      const std::string& workspace_bytes,
                                                      const std::vector<Tunable>& tunables,
                                                      const AxisValues& axes);

// The shapes at which launches must have a plan: the target's check and bench shapes, and the
// corners of the ranges of held-out shapes. A task has no such corners: its sizes depend on each
// other.
std::vector<AxisValues> ShapesToPlan(const Problem& problem, const ProblemTarget& target);

// Checks that PlanLaunches succeeds at these shapes. Returns the error of PlanLaunches and names
// the shape.
[[nodiscard]] absl::Status CheckPlans(const Problem& problem, const ProblemTarget& target,
                                      const std::vector<Launch>& launches,
                                      const std::string& workspace_bytes,
                                      const std::vector<Tunable>& tunables);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CORE_LAUNCH_PLAN_H_
