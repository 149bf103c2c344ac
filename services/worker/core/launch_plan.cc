#include "services/worker/core/launch_plan.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/domain/text.h"
#include "services/worker/core/narrow_float.h"
#include "services/worker/core/tensor.h"

namespace kernelcast::worker {
namespace {

template <class T>
void SetBits(T value, KernelArgument& argument) {
  static_assert(sizeof(T) <= sizeof(KernelArgument::bits));
  argument.bytes = sizeof(T);
  std::memcpy(argument.bits.data(), &value, sizeof(T));
}

KernelArgument Scalar(ScalarType type, const ScalarValue& value) {
  KernelArgument argument;
  argument.type = type;
  // Little-endian: the first bytes of a longer integer are the shorter integer.
  const auto whole = [&]() -> uint64_t {
    if (const auto* number = std::get_if<uint64_t>(&value)) return *number;
    return static_cast<uint64_t>(std::get<int64_t>(value));
  };
  switch (type) {
    case ScalarType::kBool:
    case ScalarType::kInt8:
    case ScalarType::kUint8: SetBits(static_cast<uint8_t>(whole()), argument); break;
    case ScalarType::kInt16:
    case ScalarType::kUint16: SetBits(static_cast<uint16_t>(whole()), argument); break;
    case ScalarType::kInt32:
    case ScalarType::kUint32: SetBits(static_cast<uint32_t>(whole()), argument); break;
    case ScalarType::kInt64:
    case ScalarType::kUint64: SetBits(whole(), argument); break;
    case ScalarType::kFloat16:
    case ScalarType::kBfloat16:
      SetBits(static_cast<uint16_t>(EncodeNarrow(
                  type == ScalarType::kFloat16 ? DataType::kFloat16 : DataType::kBfloat16,
                  std::get<double>(value))),
              argument);
      break;
    case ScalarType::kFloat32:
      SetBits(static_cast<float>(std::get<double>(value)), argument);
      break;
    case ScalarType::kFloat64: SetBits(std::get<double>(value), argument); break;
  }
  return argument;
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

absl::StatusOr<KernelArgument> PlanName(const Problem& problem, const std::string& name,
                                        const AxisValues& axes) {
  if (const std::optional<int> tensor = TensorIndex(problem, name)) {
    return KernelArgument{.kind = KernelArgument::Kind::kTensor, .tensor = *tensor};
  }
  const auto axis = std::ranges::find(problem.axes, name, &Axis::name);
  const auto value = axes.find(name);
  if (axis != problem.axes.end() && value != axes.end()) {
    const absl::StatusOr<ScalarValue> converted =
        ConvertScalar(axis->type, static_cast<double>(value->second));
    if (converted.ok()) return Scalar(axis->type, *converted);
    return absl::InvalidArgumentError(
        absl::StrCat("axis ", name, ": ", converted.status().message()));
  }
  std::vector<std::string> known;
  for (const TensorSpec& input : problem.inputs) known.push_back(input.name);
  for (const TensorSpec& output : problem.outputs) known.push_back(output.name);
  for (const Axis& known_axis : problem.axes) known.push_back(known_axis.name);
  known.emplace_back(kWorkspaceArgument);
  return absl::InvalidArgumentError(
      absl::StrCat(Quoted(name), " is not one of ", CommaList(known),
                   ", or an expression with a type such as 3:int or 0.5:float"));
}

absl::StatusOr<KernelArgument> PlanWorkspace(const LaunchArgument& argument,
                                             const Variables& variables, bool has_workspace,
                                             int64_t workspace_bytes) {
  if (!has_workspace) return absl::InvalidArgumentError("'workspace' needs workspace_bytes");
  KernelArgument planned{.kind = KernelArgument::Kind::kWorkspace};
  if (argument.expression.empty()) return planned;
  std::vector<std::string> names;
  for (const auto& [name, value] : variables) names.push_back(name);
  KC_ASSIGN_OR_RETURN(const Expression offset, Expression::Parse(argument.expression, names));
  const absl::StatusOr<int64_t> bytes = offset.EvaluateInteger(variables, 0, workspace_bytes);
  if (!bytes.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("offset into the workspace of ", workspace_bytes,
                                                   " bytes: ", bytes.status().message()));
  }
  planned.offset = *bytes;
  return planned;
}

absl::StatusOr<KernelArgument> PlanArgument(const Problem& problem, const std::string& text,
                                            const AxisValues& axes, const Variables& variables,
                                            bool has_workspace, int64_t workspace_bytes) {
  KC_ASSIGN_OR_RETURN(const LaunchArgument argument, ParseLaunchArgument(text));
  switch (argument.kind) {
    case LaunchArgument::Kind::kName: return PlanName(problem, argument.name, axes);
    case LaunchArgument::Kind::kWorkspace:
      return PlanWorkspace(argument, variables, has_workspace, workspace_bytes);
    case LaunchArgument::Kind::kScalar: break;
  }
  KC_ASSIGN_OR_RETURN(const ScalarValue value, EvaluateScalar(argument, variables));
  return Scalar(argument.type, value);
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
    KC_ASSIGN_OR_RETURN(const bool launched, IsLaunched(launch, variables, field));
    if (!launched) continue;
    PlannedLaunch planned;
    planned.index = i;
    KC_ASSIGN_OR_RETURN(static_cast<LaunchGeometry&>(planned),
                        EvaluateGeometry(launch, variables, field));
    planned.kernel = launch.kernel;
    if (std::ssize(launch.arguments) > kMaxLaunchArguments) {
      return TooMany(field + ".arguments", launch.arguments.size(), kMaxLaunchArguments);
    }
    for (size_t j = 0; j < launch.arguments.size(); ++j) {
      absl::StatusOr<KernelArgument> argument =
          PlanArgument(problem, launch.arguments[j], axes, variables, !workspace_bytes.empty(),
                       plan.workspace_bytes);
      if (!argument.ok()) {
        return absl::InvalidArgumentError(
            absl::StrCat(field, ".arguments[", j, "]: ", argument.status().message()));
      }
      planned.arguments.push_back(*argument);
    }
    plan.launches.push_back(std::move(planned));
  }
  if (plan.launches.empty()) {
    return absl::InvalidArgumentError("launches: no launch runs; 'when' is 0 for every one");
  }
  return plan;
}

std::vector<AxisValues> ShapesToPlan(const Problem& problem, const ProblemTarget& target) {
  std::vector<AxisValues> shapes = target.check_shapes;
  shapes.insert(shapes.end(), target.bench_shapes.begin(), target.bench_shapes.end());
  if (problem.task) return shapes;
  const std::vector<AxisValues> corners = HeldOutCorners(problem);
  shapes.insert(shapes.end(), corners.begin(), corners.end());
  return shapes;
}

absl::Status CheckPlans(const Problem& problem, const ProblemTarget& target,
                        const std::vector<Launch>& launches, const std::string& workspace_bytes,
                        const std::vector<Tunable>& tunables) {
  for (const AxisValues& shape : ShapesToPlan(problem, target)) {
    const absl::Status status =
        PlanLaunches(problem, launches, workspace_bytes, tunables, shape).status();
    if (!status.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(status.message(), "; at ", ShapeText(shape)));
    }
  }
  return absl::OkStatus();
}

}  // namespace kernelcast::worker
