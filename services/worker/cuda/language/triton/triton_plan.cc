#include "services/worker/cuda/language/triton/triton_plan.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/domain/expression.h"
#include "common/domain/launch_argument.h"
#include "common/domain/launch_geometry.h"
#include "common/domain/text.h"
#include "services/worker/core/launch_plan.h"

namespace kernelcast::worker {
namespace {

constexpr int64_t kDivisor = 16;
// Values of an axis over which a constant is evaluated.
constexpr int64_t kMaxAxisValues = 1 << 20;
constexpr size_t kMaxConstantValues = 16;  // combinations of values that depend on the shape
constexpr size_t kMaxAssumptions = 3;      // sets of multiples of 16, besides none
constexpr size_t kMaxConditionBytes = 1000;
constexpr int64_t kMaxHiddenParameters = 2;

absl::Status Invalid(const std::string& field, std::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(field, ": ", std::string(what)));
}

std::string_view ElementName(DataType dtype) {
  switch (dtype) {
    case DataType::kFloat64: return "fp64";
    case DataType::kFloat32: return "fp32";
    case DataType::kFloat16: return "fp16";
    case DataType::kBfloat16: return "bf16";
    case DataType::kFloat8E4m3: return "fp8e4nv";
    case DataType::kFloat8E5m2: return "fp8e5";
    case DataType::kInt64: return "i64";
    case DataType::kInt32: return "i32";
    case DataType::kInt8: return "i8";
    case DataType::kUint8: return "u8";
  }
  return "i8";
}

// "" if a Triton kernel cannot take the type by value.
std::string_view ScalarName(ScalarType type) {
  switch (type) {
    case ScalarType::kInt8: return "i8";
    case ScalarType::kUint8: return "u8";
    case ScalarType::kInt16: return "i16";
    case ScalarType::kUint16: return "u16";
    case ScalarType::kInt32: return "i32";
    case ScalarType::kUint32: return "u32";
    case ScalarType::kInt64: return "i64";
    case ScalarType::kUint64: return "u64";
    case ScalarType::kFloat32: return "fp32";
    case ScalarType::kFloat64: return "fp64";
    case ScalarType::kBool:
    case ScalarType::kFloat16:
    case ScalarType::kBfloat16: return "";
  }
  return "";
}

std::string Conjunction(const std::vector<std::string>& conditions) {
  std::string text;
  for (const std::string& condition : conditions) {
    absl::StrAppend(&text, text.empty() ? "" : " && ", condition);
  }
  return text;
}

std::string IsMultiple(const std::string& expression) {
  return absl::StrCat("mod(", expression, ",", kDivisor, ")==0");
}

// A constant as a number, exact.
TritonConstant NumberConstant(const std::string& name, double value) {
  if (value == std::floor(value) && std::abs(value) < 9e15) {
    return {name, TritonConstant::Kind::kInteger, absl::StrCat(static_cast<int64_t>(value))};
  }
  return {name, TritonConstant::Kind::kReal, NumberText(value, 17)};
}

// One argument as the plan sees it.
struct Argument {
  TritonParameter parameter;
  std::string text;  // for the launch, with its type
  // The value of an integer or an offset that depends on the shape. Empty: the parameter's facts
  // are complete.
  std::string varying;
};

// A constant that depends on one axis.
struct VaryingConstant {
  std::string name;
  std::string expression;
};

// Values of the constants that depend on an axis, and when they apply.
struct Choice {
  std::vector<TritonConstant> constants;
  std::vector<std::string> conditions;
};

class Planner {
 public:
  Planner(const Problem& problem, const ProblemTarget& target, const Candidate& candidate)
      : problem_(problem), target_(target), candidate_(candidate) {
    tunables_ = LaunchVariables(candidate.tunables, {});
    for (const auto& [name, value] : tunables_) known_.push_back(name);
    all_names_ = known_;
    for (const Axis& axis : problem.axes) all_names_.push_back(axis.name);
  }

  absl::StatusOr<TritonPlan> Plan() {
    for (size_t i = 0; i < candidate_.launches.size(); ++i) {
      KC_RETURN_IF_ERROR(PlanLaunch(candidate_.launches[i], absl::StrCat("launches[", i, "]")));
    }
    return std::move(plan_);
  }

 private:
  // Whether the expression has a value without a shape.
  std::optional<double> WithoutShape(const std::string& expression) const {
    const auto parsed = Expression::Parse(expression, known_);
    if (!parsed.ok()) return std::nullopt;
    const auto value = parsed->Evaluate(tunables_);
    return value.ok() ? std::optional(*value) : std::nullopt;
  }

  std::vector<AxisValues> AllShapes() const { return ShapesToPlan(problem_, target_); }

  absl::StatusOr<double> ValueAt(const std::string& expression, const AxisValues& shape,
                                 const std::string& field) const {
    const auto parsed = Expression::Parse(expression, all_names_);
    const auto value = parsed.ok() ? parsed->Evaluate(LaunchVariables(candidate_.tunables, shape))
                                   : absl::StatusOr<double>(parsed.status());
    if (value.ok()) return value;
    return Invalid(field, std::string(value.status().message()));
  }

  void SetFacts(const std::string& expression, bool may_vanish, Argument& argument) const {
    if (const auto value = WithoutShape(expression)) {
      argument.parameter.divisible_by_16 = std::fmod(*value, kDivisor) == 0;
      argument.parameter.equal_to_1 = may_vanish && *value == 1;
      return;
    }
    const auto axis = std::ranges::find(problem_.axes, expression, &Axis::name);
    if (axis != problem_.axes.end() && axis->multiple_of % kDivisor == 0) {
      argument.parameter.divisible_by_16 = true;
      return;
    }
    argument.varying = expression;
  }

  // As Triton, which takes 32 bits for integers that fit.
  ScalarType TypeOfAxis(const std::string& name) const {
    int64_t largest = 0;
    for (const AxisValues& shape : AllShapes()) {
      if (const auto value = shape.find(name); value != shape.end()) {
        largest = std::max(largest, value->second);
      }
    }
    return largest <= INT32_MAX ? ScalarType::kInt32 : ScalarType::kInt64;
  }

  absl::StatusOr<Argument> PlanArgument(const std::string& text, const std::string& field) const {
    const auto parsed = ParseLaunchArgument(text);
    if (!parsed.ok()) return Invalid(field, std::string(parsed.status().message()));
    Argument argument;
    argument.text = text;
    switch (parsed->kind) {
      case LaunchArgument::Kind::kName: {
        for (const auto* tensors : {&problem_.inputs, &problem_.outputs}) {
          const auto tensor = std::ranges::find(*tensors, parsed->name, &TensorSpec::name);
          if (tensor == tensors->end()) continue;
          argument.parameter.type = absl::StrCat("*", std::string(ElementName(tensor->dtype)));
          argument.parameter.divisible_by_16 = true;
          return argument;
        }
        const auto axis = std::ranges::find(problem_.axes, parsed->name, &Axis::name);
        // PlanLaunches lists the names that exist.
        if (axis == problem_.axes.end()) return argument;
        const ScalarType type = TypeOfAxis(axis->name);
        argument.parameter.type = std::string(ScalarName(type));
        argument.text = absl::StrCat(axis->name, ":", std::string(Name(type)));
        SetFacts(axis->name, true, argument);
        return argument;
      }
      case LaunchArgument::Kind::kWorkspace:
        argument.parameter.type = "*i8";
        argument.parameter.divisible_by_16 = true;
        if (!parsed->expression.empty()) {
          argument.parameter.divisible_by_16 = false;
          SetFacts(parsed->expression, false, argument);
        }
        return argument;
      case LaunchArgument::Kind::kScalar: break;
    }
    argument.parameter.type = std::string(ScalarName(parsed->type));
    if (argument.parameter.type.empty()) {
      return Invalid(field, absl::StrCat(Quoted(text), " has a type that a Triton kernel cannot ",
                                         "take; integers, float32 and float64 are allowed"));
    }
    if (!IsFloat(parsed->type)) SetFacts(parsed->expression, true, argument);
    return argument;
  }

  // Sorts the constants of a launch into fixed ones and those that depend on an axis.
  absl::Status ReadConstants(const Launch& launch, const std::string& field,
                             std::vector<TritonConstant>& fixed,
                             std::map<std::string, std::vector<VaryingConstant>>& by_axis) const {
    using Kind = TritonConstant::Kind;
    for (const auto& [name, value] : launch.constexprs) {
      const std::string here = absl::StrCat(field, ".constexprs.", name);
      if (value == "true" || value == "false") {
        fixed.push_back({name, Kind::kBoolean, value});
      } else if (value == "none") {
        fixed.push_back({name, Kind::kNone, ""});
      } else if (value.starts_with("tl.") && IsIdentifier(value.substr(3))) {
        fixed.push_back({name, Kind::kType, value.substr(3)});
      } else if (value.size() >= 2 && value.front() == '\'' && value.back() == '\'') {
        fixed.push_back({name, Kind::kText, value.substr(1, value.size() - 2)});
      } else if (const auto number = WithoutShape(value)) {
        // A decimal point says that the constant is real.
        if (value.find_first_not_of("-+0123456789.e") == std::string::npos &&
            value.find_first_of(".e") != std::string::npos) {
          fixed.push_back({name, Kind::kReal, value});
        } else {
          fixed.push_back(NumberConstant(name, *number));
        }
      } else {
        std::vector<std::string> axes;
        for (const Axis& axis : problem_.axes) {
          std::vector<std::string> names = known_;
          names.push_back(axis.name);
          if (Expression::Parse(value, names).ok()) axes.push_back(axis.name);
        }
        if (axes.empty()) {
          const auto parsed = Expression::Parse(value, all_names_);
          if (!parsed.ok()) {
            return Invalid(
                here, absl::StrCat(parsed.status().message(), "; write a text in single quotes"));
          }
          return Invalid(here, absl::StrCat(Quoted(value), " depends on several axes; one at most ",
                                            "is allowed"));
        }
        by_axis[axes.front()].push_back({name, value});
      }
    }
    return absl::OkStatus();
  }

  // Every set of values that the constants have over all values of the axis.
  absl::StatusOr<std::vector<Choice>> ChoicesOf(const std::string& axis_name,
                                                const std::vector<VaryingConstant>& constants,
                                                const std::string& field) const {
    const auto axis = std::ranges::find(problem_.axes, axis_name, &Axis::name);
    std::set<int64_t> values;
    for (const AxisValues& shape : AllShapes()) values.insert(shape.at(axis_name));
    const int64_t step = std::max<int64_t>(1, axis->multiple_of);
    const int64_t first = (axis->held_out_low + step - 1) / step * step;
    if ((axis->held_out_high - first) / step >= kMaxAxisValues) {
      return Invalid(field, absl::StrCat("depends on axis ", axis_name, ", which has more than ",
                                         kMaxAxisValues, " values"));
    }
    for (int64_t value = first; value <= axis->held_out_high; value += step) values.insert(value);
    std::set<std::vector<double>> results;
    for (const int64_t value : values) {
      std::vector<double> result;
      for (const VaryingConstant& constant : constants) {
        KC_ASSIGN_OR_RETURN(const double number, ValueAt(constant.expression, {{axis_name, value}},
                                                         field + "." + constant.name));
        result.push_back(number);
      }
      results.insert(std::move(result));
      if (results.size() > kMaxConstantValues) {
        return Invalid(field,
                       absl::StrCat("have more than ", kMaxConstantValues, " values over axis ",
                                    axis_name, "; each is a compilation"));
      }
    }
    std::vector<Choice> choices;
    for (const std::vector<double>& result : results) {
      Choice& choice = choices.emplace_back();
      for (size_t i = 0; i < constants.size(); ++i) {
        choice.constants.push_back(NumberConstant(constants[i].name, result[i]));
        if (results.size() > 1) {
          choice.conditions.push_back(
              absl::StrCat("(", constants[i].expression, ")==", choice.constants.back().value));
        }
      }
    }
    return choices;
  }

  // Combines the choices of several axes.
  absl::StatusOr<std::vector<Choice>> AllChoices(
      const std::map<std::string, std::vector<VaryingConstant>>& by_axis,
      const std::string& field) const {
    std::vector<Choice> all(1);
    for (const auto& [axis, constants] : by_axis) {
      KC_ASSIGN_OR_RETURN(const std::vector<Choice> choices, ChoicesOf(axis, constants, field));
      std::vector<Choice> combined;
      for (const Choice& one : all) {
        for (const Choice& other : choices) {
          Choice& both = combined.emplace_back(one);
          both.constants.insert(both.constants.end(), other.constants.begin(),
                                other.constants.end());
          both.conditions.insert(both.conditions.end(), other.conditions.begin(),
                                 other.conditions.end());
        }
      }
      all = std::move(combined);
      if (all.size() > kMaxConstantValues) {
        return Invalid(field, absl::StrCat("have more than ", kMaxConstantValues,
                                           " combinations of values; each is a compilation"));
      }
    }
    return all;
  }

  // Which of the varying arguments are multiples of 16 at the bench shapes where the conditions
  // hold: each set once, without the empty one.
  absl::StatusOr<std::vector<std::set<std::string>>> Assumptions(
      const std::vector<Argument>& arguments, const std::vector<std::string>& conditions,
      const std::string& field) const {
    std::vector<std::set<std::string>> sets;
    for (const AxisValues& shape : target_.bench_shapes) {
      if (!conditions.empty()) {
        KC_ASSIGN_OR_RETURN(const double applies, ValueAt(Conjunction(conditions), shape, field));
        if (applies == 0) continue;
      }
      std::set<std::string> multiples;
      for (const Argument& argument : arguments) {
        if (argument.varying.empty()) continue;
        KC_ASSIGN_OR_RETURN(const double value,
                            ValueAt(argument.varying, shape, field + ".arguments"));
        if (std::fmod(value, kDivisor) == 0) multiples.insert(argument.varying);
      }
      if (multiples.empty() || sets.size() >= kMaxAssumptions) continue;
      if (std::ranges::find(sets, multiples) == sets.end()) sets.push_back(std::move(multiples));
    }
    // Prefer the launch that assumes most.
    std::ranges::stable_sort(sets,
                             [](const auto& a, const auto& b) { return a.size() > b.size(); });
    return sets;
  }

  absl::Status PlanLaunch(const Launch& launch, const std::string& field) {
    std::vector<Argument> arguments;
    for (size_t j = 0; j < launch.arguments.size(); ++j) {
      KC_ASSIGN_OR_RETURN(
          arguments.emplace_back(),
          PlanArgument(launch.arguments[j], absl::StrCat(field, ".arguments[", j, "]")));
    }
    std::vector<TritonConstant> fixed;
    std::map<std::string, std::vector<VaryingConstant>> by_axis;
    KC_RETURN_IF_ERROR(ReadConstants(launch, field, fixed, by_axis));
    KC_ASSIGN_OR_RETURN(const std::vector<Choice> choices,
                        AllChoices(by_axis, field + ".constexprs"));
    for (const Choice& choice : choices) {
      std::vector<std::string> conditions = choice.conditions;
      if (!launch.when.empty())
        conditions.insert(conditions.begin(), absl::StrCat("(", launch.when, ")"));
      KC_ASSIGN_OR_RETURN(const auto assumptions, Assumptions(arguments, conditions, field));
      std::vector<TritonConstant> constants = fixed;
      constants.insert(constants.end(), choice.constants.begin(), choice.constants.end());
      KC_RETURN_IF_ERROR(AddVariants(launch, field, arguments, constants, conditions, assumptions));
    }
    return absl::OkStatus();
  }

  absl::Status AddVariants(const Launch& launch, const std::string& field,
                           const std::vector<Argument>& arguments,
                           const std::vector<TritonConstant>& constants,
                           std::vector<std::string> conditions,
                           const std::vector<std::set<std::string>>& assumptions) {
    // Later assumptions cover the rest.
    for (const std::set<std::string>& multiples : assumptions) {
      std::vector<std::string> holds;
      for (const std::string& expression : multiples) holds.push_back(IsMultiple(expression));
      std::vector<std::string> here = conditions;
      here.push_back(Conjunction(holds));
      std::vector<std::string> elsewhere = conditions;
      elsewhere.push_back(absl::StrCat("(", Conjunction(holds), ")==0"));
      if (Conjunction(elsewhere).size() > kMaxConditionBytes) break;
      KC_RETURN_IF_ERROR(Add(launch, field, arguments, constants, here, multiples));
      conditions = std::move(elsewhere);
    }
    if (Conjunction(conditions).size() > kMaxConditionBytes) {
      return Invalid(field, "the conditions of its variants are too long; use shorter expressions");
    }
    return Add(launch, field, arguments, constants, conditions, {});
  }

  absl::Status Add(const Launch& launch, const std::string& field,
                   const std::vector<Argument>& arguments,
                   const std::vector<TritonConstant>& constants,
                   const std::vector<std::string>& conditions,
                   const std::set<std::string>& multiples) {
    TritonVariant variant{launch.kernel, launch.num_warps, launch.num_stages, {}, constants};
    TritonLaunch planned;
    planned.grid = launch.grid;
    planned.when = Conjunction(conditions);
    for (const Argument& argument : arguments) {
      TritonParameter& parameter = variant.parameters.emplace_back(argument.parameter);
      if (multiples.contains(argument.varying)) parameter.divisible_by_16 = true;
      if (!parameter.equal_to_1) planned.arguments.push_back(argument.text);
    }
    const auto known = std::ranges::find(plan_.variants, variant);
    planned.variant = static_cast<size_t>(known - plan_.variants.begin());
    if (known == plan_.variants.end()) plan_.variants.push_back(std::move(variant));
    plan_.launches.push_back(std::move(planned));
    if (plan_.variants.size() > kMaxTritonVariants || std::ssize(plan_.launches) > kMaxLaunches) {
      return Invalid(
          field, absl::StrCat("more than ", kMaxTritonVariants,
                              " variants of kernels in all; use fewer values of ", "constexprs"));
    }
    return absl::OkStatus();
  }

  const Problem& problem_;
  const ProblemTarget& target_;
  const Candidate& candidate_;
  Variables tunables_;
  std::vector<std::string> known_;      // names that have a value without a shape
  std::vector<std::string> all_names_;  // and the axes
  TritonPlan plan_;
};

}  // namespace

absl::StatusOr<TritonPlan> PlanTriton(const Problem& problem, const ProblemTarget& target,
                                      const Candidate& candidate) {
  return Planner(problem, target, candidate).Plan();
}

absl::StatusOr<std::vector<Launch>> ResolveLaunches(
    const TritonPlan& plan, const std::vector<TritonKernelFacts>& compiled) {
  std::vector<Launch> launches;
  for (const TritonLaunch& planned : plan.launches) {
    const TritonKernelFacts& kernel = compiled.at(planned.variant);
    const int64_t hidden = kernel.parameters - std::ssize(planned.arguments);
    if (hidden < 0 || hidden > kMaxHiddenParameters) {
      return absl::InvalidArgumentError(absl::StrCat(
          "kernel ", Quoted(plan.variants[planned.variant].kernel), " was compiled to ",
          kernel.parameters, " parameters, and the launch has ", planned.arguments.size()));
    }
    Launch& launch = launches.emplace_back();
    launch.kernel = kernel.entry;
    launch.grid = planned.grid;
    launch.block = {absl::StrCat(kernel.block_threads)};
    if (kernel.shared_bytes > 0) launch.shared_memory_bytes = absl::StrCat(kernel.shared_bytes);
    launch.arguments = planned.arguments;
    for (int64_t i = 0; i < hidden; ++i) launch.arguments.emplace_back("0:uint64");
    launch.when = planned.when;
  }
  return launches;
}

}  // namespace kernelcast::worker
