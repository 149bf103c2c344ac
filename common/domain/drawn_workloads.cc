// Draws other workloads for tasks in the format of flashinfer-bench.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/bounded_json.h"
#include "common/base/hash.h"
#include "common/domain/expression.h"
#include "common/domain/task_problem.h"

namespace kernelcast {
namespace {

using TaskJson = nlohmann::ordered_json;

constexpr int kDrawAttempts = 16;
constexpr int64_t kMaxDrawnSize = int64_t{1} << 40;

// A relation between axes that holds in every workload.
struct Constraint {
  std::string axis;       // the one that it defines; empty: it is only checked
  Expression expression;  // the size of the axis, or not 0
};

struct DrawnAxes {
  std::vector<std::string> drawn;  // of kind var, without those that constraints define
  Variables constants;
  std::vector<Constraint> constraints;
};

// Constraints are Python. Those that mean the same in Expression compare once and have no operator
// with another meaning there.
bool IsUnderstood(std::string_view text) {
  if (text.find_first_of("^?:&|!,") != std::string_view::npos) return false;
  size_t comparisons = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '*' && i + 1 < text.size() && text[i + 1] == '*') return false;
    if (text[i] == '/' && i + 1 < text.size() && text[i + 1] == '/') return false;
    if (text[i] != '<' && text[i] != '>' && text[i] != '=') continue;
    ++comparisons;
    if (i + 1 < text.size() && text[i + 1] == '=') ++i;
  }
  return comparisons == 1;
}

std::optional<Constraint> ReadConstraint(const std::string& text,
                                         const std::vector<std::string>& names,
                                         const std::vector<std::string>& open) {
  if (!IsUnderstood(text)) return std::nullopt;
  Constraint constraint;
  std::string formula = text;
  if (const size_t equals = text.find("=="); equals != std::string::npos) {
    std::string left = text.substr(0, equals);
    absl::StripAsciiWhitespace(&left);
    std::vector<std::string> others = names;
    std::erase(others, left);
    const std::string right = text.substr(equals + 2);
    // An axis that occurs on both sides is only checked.
    if (std::ranges::find(open, left) != open.end() && Expression::Parse(right, others).ok()) {
      constraint.axis = left;
      formula = right;
    }
  }
  absl::StatusOr<Expression> expression = Expression::Parse(formula, names);
  if (!expression.ok()) return std::nullopt;
  constraint.expression = *std::move(expression);
  return constraint;
}

std::optional<DrawnAxes> ReadAxes(const TaskJson& definition) {
  DrawnAxes axes;
  std::vector<std::string> names;
  for (const auto& [name, axis] : definition.at("axes").items()) {
    names.push_back(name);
    const auto value = axis.find("value");
    if (axis.at("type") == "var") {
      axes.drawn.push_back(name);
    } else if (value != axis.end() && value->is_number()) {
      axes.constants[name] = value->get<double>();
    }
  }
  const auto constraints = definition.find("constraints");
  if (constraints == definition.end() || constraints->is_null()) return axes;
  if (!constraints->is_array()) return std::nullopt;
  for (const TaskJson& text : *constraints) {
    if (!text.is_string()) return std::nullopt;
    std::optional<Constraint> constraint =
        ReadConstraint(text.get<std::string>(), names, axes.drawn);
    if (!constraint) return std::nullopt;
    std::erase(axes.drawn, constraint->axis);
    axes.constraints.push_back(*std::move(constraint));
  }
  return axes;
}

// Sets the axes that constraints define. False: a constraint does not hold.
bool Complete(const DrawnAxes& axes, AxisValues& shape) {
  Variables variables = axes.constants;
  for (const auto& [axis, size] : shape) variables[axis] = static_cast<double>(size);
  const auto set_all = [&] {
    for (const Constraint& one : axes.constraints) {
      if (one.axis.empty()) continue;
      const absl::StatusOr<int64_t> size =
          one.expression.EvaluateInteger(variables, 1, kMaxDrawnSize);
      if (!size.ok()) return false;
      shape[one.axis] = *size;
      variables[one.axis] = static_cast<double>(*size);
    }
    return true;
  };
  // A constraint may use an axis that a later one defines.
  for (size_t i = 0; i <= axes.constraints.size(); ++i) {
    const AxisValues before = shape;
    if (!set_all()) return false;
    if (shape == before) {
      return std::ranges::all_of(axes.constraints, [&](const Constraint& one) {
        if (!one.axis.empty()) return true;
        const absl::StatusOr<double> value = one.expression.Evaluate(variables);
        return value.ok() && *value != 0;
      });
    }
  }
  return false;
}

bool HasIntegerTensor(const TaskJson& definition) {
  const TaskJson& inputs = definition.at("inputs");
  return std::any_of(inputs.begin(), inputs.end(), [](const TaskJson& input) {
    const std::string dtype = input.at("dtype").get<std::string>();
    return !input.at("shape").is_null() &&
           (absl::StartsWith(dtype, "int") || absl::StartsWith(dtype, "uint"));
  });
}

bool MayVary(const TaskJson& workload) {
  const TaskJson& inputs = workload.at("inputs");
  return std::all_of(inputs.begin(), inputs.end(), [](const TaskJson& input) {
    if (input.at("type") == "random") return true;
    const auto value = input.find("value");
    return input.at("type") == "scalar" && value != input.end() && value->is_number_float();
  });
}

std::vector<TaskJson> DrawLines(const DrawnAxes& axes, const TaskJson& cases, std::string_view seed,
                                int count) {
  std::vector<AxisValues> taken;
  std::vector<size_t> sources;
  for (size_t i = 0; i < cases.size(); ++i) {
    taken.push_back(cases[i].at("axes").get<AxisValues>());
    AxisValues own = taken.back();
    // A workload that breaks its constraints shows that they are not understood.
    if (MayVary(cases[i]) && Complete(axes, own) && own == taken.back()) sources.push_back(i);
  }
  sources = Spread(sources, static_cast<size_t>(count));
  std::vector<TaskJson> lines;
  for (int i = 0; i < kDrawAttempts && !sources.empty() && std::ssize(lines) < count; ++i) {
    const size_t source = sources[static_cast<size_t>(i) % sources.size()];
    const std::string key = absl::StrCat("held-out workload ", i, " of ", std::string(seed));
    AxisValues shape = taken[source];
    for (const std::string& axis : axes.drawn) {
      const int64_t size = shape[axis];
      shape[axis] = DrawBetween((size + 1) / 2, std::min(2 * size, kMaxDrawnSize), key, axis);
    }
    if (!Complete(axes, shape) || std::ranges::find(taken, shape) != taken.end()) continue;
    lines.push_back({{"axes", shape}, {"inputs", cases[source].at("inputs")}});
    taken.push_back(std::move(shape));
  }
  return lines;
}

}  // namespace

int64_t DrawBetween(int64_t low, int64_t high, std::string_view key, std::string_view axis) {
  const uint64_t draw =
      std::stoull(ContentHasher().Add(key).Add(axis).Hex128().substr(0, 15), nullptr, 16);
  return low + static_cast<int64_t>(draw % static_cast<uint64_t>(high - low + 1));
}

std::optional<std::vector<ProblemFile>> DrawWorkloads(const Problem& problem, std::string_view seed,
                                                      int count) {
  if (!problem.task || problem.task->format != PythonTask::Format::kFlashInferBench) {
    return std::nullopt;
  }
  // ParseDefinitionTask has checked the definition and the cases, and wrote this.
  const TaskJson details = ParseBoundedJson<TaskJson>(problem.task->details);
  if (!details.is_object()) return std::nullopt;
  const TaskJson& definition = details.at("definition");
  const std::optional<DrawnAxes> axes = ReadAxes(definition);
  if (!axes || axes->drawn.empty() || HasIntegerTensor(definition)) return std::nullopt;
  const std::vector<TaskJson> lines = DrawLines(*axes, details.at("cases"), seed, count);
  if (lines.empty()) return std::nullopt;
  std::vector<ProblemFile> files = problem.files;
  const auto workloads = std::ranges::find_if(
      files, [](const ProblemFile& file) { return file.path.ends_with(".jsonl"); });
  if (workloads == files.end()) return std::nullopt;
  workloads->content.clear();
  for (const TaskJson& line : lines) absl::StrAppend(&workloads->content, line.dump(), "\n");
  return files;
}

}  // namespace kernelcast
