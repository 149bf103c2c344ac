#include "services/worker/core/launch_plan.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/domain/text.h"
#include "services/worker/core/tensor.h"

namespace kernelcast::worker {
namespace {

template <class T>
KernelArgument Scalar(T value) {
  static_assert(sizeof(T) <= sizeof(KernelArgument::bits));
  KernelArgument argument;
  argument.bytes = sizeof(T);
  std::memcpy(argument.bits.data(), &value, sizeof(T));
  return argument;
}

KernelArgument FromLiteral(const LaunchLiteral& literal) {
  switch (literal.type) {
    case LaunchLiteral::Type::kInt32: return Scalar(static_cast<int32_t>(literal.integer));
    case LaunchLiteral::Type::kInt64: return Scalar(literal.integer);
    case LaunchLiteral::Type::kFloat32: return Scalar(static_cast<float>(literal.real));
    case LaunchLiteral::Type::kFloat64: return Scalar(literal.real);
  }
  return {};
}

std::optional<int> TensorIndex(const Problem& problem, std::string_view name) {
  int index = 0;
  for (const auto* tensors : {&problem.inputs, &problem.outputs}) {
    for (const TensorSpec& tensor : *tensors) {
      if (tensor.name == name) return index;
      ++index;
    }
  }
  return std::nullopt;
}

absl::StatusOr<KernelArgument> PlanArgument(const Problem& problem, const std::string& text,
                                            const AxisValues& axes, bool has_workspace) {
  if (text.find(':') != std::string::npos) {
    KC_ASSIGN_OR_RETURN(const LaunchLiteral literal, ParseLaunchLiteral(text));
    return FromLiteral(literal);
  }
  if (text == kWorkspaceArgument) {
    if (!has_workspace) return absl::InvalidArgumentError("'workspace' needs workspace_bytes");
    return KernelArgument{.kind = KernelArgument::Kind::kWorkspace};
  }
  if (const std::optional<int> tensor = TensorIndex(problem, text)) {
    return KernelArgument{.kind = KernelArgument::Kind::kTensor, .tensor = *tensor};
  }
  if (const auto axis = axes.find(text); axis != axes.end()) return Scalar(axis->second);
  std::vector<std::string> known;
  for (const TensorSpec& input : problem.inputs) known.push_back(input.name);
  for (const TensorSpec& output : problem.outputs) known.push_back(output.name);
  for (const Axis& axis : problem.axes) known.push_back(axis.name);
  known.emplace_back(kWorkspaceArgument);
  return absl::InvalidArgumentError(absl::StrCat(Quoted(text), " is not one of ", CommaList(known),
                                                 ", or a literal such as 3:i32 or 0.5:f32"));
}

absl::Status TooMany(const std::string& field, size_t count, int64_t limit) {
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": ", count, " entries; at most ", limit, " are allowed"));
}

}  // namespace

absl::StatusOr<LaunchPlan> PlanLaunches(const Problem& problem, const std::vector<Launch>& launches,
                                        const std::string& workspace_bytes,
                                        const std::vector<Tunable>& tunables,
                                        const AxisValues& axes) {
  if (launches.empty()) return absl::InvalidArgumentError("launches: at least one is needed");
  if (std::ssize(launches) > kMaxLaunches) {
    return TooMany("launches", launches.size(), kMaxLaunches);
  }
  const Variables variables = LaunchVariables(tunables, axes);
  LaunchPlan plan;
  KC_ASSIGN_OR_RETURN(plan.workspace_bytes, EvaluateWorkspaceBytes(workspace_bytes, variables));
  for (size_t i = 0; i < launches.size(); ++i) {
    const Launch& launch = launches[i];
    const std::string field = absl::StrCat("launches[", i, "]");
    if (!IsIdentifier(launch.kernel)) {
      return absl::InvalidArgumentError(
          absl::StrCat(field, ".kernel: ", Quoted(launch.kernel), " is not the name of a kernel"));
    }
    PlannedLaunch planned;
    KC_ASSIGN_OR_RETURN(static_cast<LaunchGeometry&>(planned),
                        EvaluateGeometry(launch, variables, field));
    planned.kernel = launch.kernel;
    if (std::ssize(launch.arguments) > kMaxLaunchArguments) {
      return TooMany(field + ".arguments", launch.arguments.size(), kMaxLaunchArguments);
    }
    for (size_t j = 0; j < launch.arguments.size(); ++j) {
      absl::StatusOr<KernelArgument> argument =
          PlanArgument(problem, launch.arguments[j], axes, !workspace_bytes.empty());
      if (!argument.ok()) {
        return absl::InvalidArgumentError(
            absl::StrCat(field, ".arguments[", j, "]: ", argument.status().message()));
      }
      planned.arguments.push_back(*argument);
    }
    plan.launches.push_back(std::move(planned));
  }
  return plan;
}

absl::Status CheckPlans(const Problem& problem, const ProblemTarget& target,
                        const std::vector<Launch>& launches, const std::string& workspace_bytes,
                        const std::vector<Tunable>& tunables) {
  const std::vector<AxisValues> corners = HeldOutCorners(problem);
  for (const auto* shapes : {&target.check_shapes, &target.bench_shapes, &corners}) {
    for (const AxisValues& shape : *shapes) {
      const absl::Status status =
          PlanLaunches(problem, launches, workspace_bytes, tunables, shape).status();
      if (!status.ok()) {
        return absl::InvalidArgumentError(
            absl::StrCat(status.message(), "; at ", ShapeText(shape)));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace kernelcast::worker
