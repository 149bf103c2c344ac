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
  // Tensors: index into the problem's inputs, then its outputs.
  int tensor = 0;
  // Scalars: the value as the kernel reads it, in the first `bytes`.
  std::array<std::byte, 8> bits = {};
  // What the kernel is given: 4 or 8. Tensors and the workspace are passed as 8-byte addresses.
  size_t bytes = 8;
};

struct PlannedLaunch : LaunchGeometry {
  std::string kernel;
  std::vector<KernelArgument> arguments;
};

// Launches with every number in place.
struct LaunchPlan {
  std::vector<PlannedLaunch> launches;
  int64_t workspace_bytes = 0;
};

// Launches of a device CUDA program at one shape. Pure. INVALID_ARGUMENT naming launches[i].field,
// the value and what is allowed: what is not an expression over axes and integer tunables, has a
// value beyond CUDA's limits, or is no argument that the problem has; too many launches or
// arguments.
[[nodiscard]] absl::StatusOr<LaunchPlan> PlanLaunches(const Problem& problem,
                                                      const std::vector<Launch>& launches,
                                                      const std::string& workspace_bytes,
                                                      const std::vector<Tunable>& tunables,
                                                      const AxisValues& axes);

// Whether there is a plan at every shape that the program may be run at: the target's check and
// bench shapes, and the corners of the ranges that held-out shapes are drawn from. The error is
// that of PlanLaunches and names the shape.
[[nodiscard]] absl::Status CheckPlans(const Problem& problem, const ProblemTarget& target,
                                      const std::vector<Launch>& launches,
                                      const std::string& workspace_bytes,
                                      const std::vector<Tunable>& tunables);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CORE_LAUNCH_PLAN_H_
