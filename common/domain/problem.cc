#include "common/domain/problem.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/checked_math.h"
#include "common/base/hash.h"
#include "common/base/status.h"
#include "common/domain/text.h"

namespace kernelcast {
namespace {

constexpr int64_t kMaxExtent = int64_t{1} << 40;

struct DataTypeRow {
  DataType dtype;
  const char* name;
  int64_t size_bytes;
  bool is_float;
};

constexpr std::array<DataTypeRow, 10> kDataTypes = {{
    {DataType::kFloat64, "float64", 8, true},
    {DataType::kFloat32, "float32", 4, true},
    {DataType::kFloat16, "float16", 2, true},
    {DataType::kBfloat16, "bfloat16", 2, true},
    {DataType::kFloat8E4m3, "float8_e4m3", 1, true},
    {DataType::kFloat8E5m2, "float8_e5m2", 1, true},
    {DataType::kInt64, "int64", 8, false},
    {DataType::kInt32, "int32", 4, false},
    {DataType::kInt8, "int8", 1, false},
    {DataType::kUint8, "uint8", 1, false},
}};

const DataTypeRow& Row(DataType dtype) { return kDataTypes[static_cast<size_t>(dtype)]; }

}  // namespace

int64_t SizeBytes(DataType dtype) { return Row(dtype).size_bytes; }
bool IsFloat(DataType dtype) { return Row(dtype).is_float; }
std::string_view Name(DataType dtype) { return Row(dtype).name; }

absl::StatusOr<DataType> ParseDataType(std::string_view name) {
  std::vector<std::string> known;
  for (const DataTypeRow& row : kDataTypes) {
    if (name == row.name) return row.dtype;
    known.emplace_back(row.name);
  }
  return absl::InvalidArgumentError(
      absl::StrCat(Quoted(name), " is not one of ", CommaList(known)));
}

std::string_view Name(Adversarial distribution) {
  switch (distribution) {
    case Adversarial::kLarge: return "large";
    case Adversarial::kEqualRows: return "equal_rows";
    case Adversarial::kZeros: return "zeros";
    case Adversarial::kExtreme: return "extreme";
  }
  return "unknown";
}

const std::string& DefaultTarget(const Problem& problem) {
  const auto cpu = problem.targets.find(kCpuTargetName);
  return (cpu == problem.targets.end() ? problem.targets.begin() : cpu)->first;
}

std::vector<double> NormalizedWeights(std::span<const double> declared, size_t count) {
  std::vector<double> weights(count, 1);
  if (declared.size() == count) weights.assign(declared.begin(), declared.end());
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (double& weight : weights) weight /= sum;
  return weights;
}

std::vector<double> BenchWeights(const ProblemTarget& target) {
  return NormalizedWeights(target.bench_weights, target.bench_shapes.size());
}

std::string ProblemId(const std::vector<ProblemFile>& files) {
  std::vector<const ProblemFile*> sorted;
  sorted.reserve(files.size());
  for (const ProblemFile& file : files) sorted.push_back(&file);
  std::ranges::sort(sorted, {},
                    [](const ProblemFile* file) -> const std::string& { return file->path; });
  ContentHasher hasher;
  hasher.Add("problem/1");
  for (const ProblemFile* file : sorted) hasher.Add(file->path).Add(file->content);
  return "p_" + hasher.Hex128();
}

absl::StatusOr<std::vector<int64_t>> TensorShape(const TensorSpec& tensor, const AxisValues& axes,
                                                 int64_t max_elements) {
  const Variables variables(axes.begin(), axes.end());
  std::vector<int64_t> shape;
  int64_t elements = 1;
  for (size_t i = 0; i < tensor.shape.size(); ++i) {
    const absl::StatusOr<int64_t> extent =
        tensor.shape[i].EvaluateInteger(variables, 1, kMaxExtent);
    if (!extent.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(tensor.name, ".shape[", i, "]: ", extent.status().message()));
    }
    shape.push_back(*extent);
    const std::optional<int64_t> product = CheckedMultiply(elements, *extent);
    if (!product.has_value() || *product > max_elements) {
      return absl::InvalidArgumentError(absl::StrCat(tensor.name,
                                                     ".shape: ", absl::StrJoin(shape, " x "),
                                                     " is more than ", max_elements, " elements"));
    }
    elements = *product;
  }
  return shape;
}

absl::StatusOr<Tolerance> ToleranceAt(const TensorSpec& output, const AxisValues& axes) {
  Tolerance tolerance = output.tolerance;
  const ToleranceExpressions& expressions = output.tolerance_expressions;
  const double most_absolute = IsFloat(output.dtype) ? kMaxTolerance : kMaxIntegerTolerance;
  const Variables variables(axes.begin(), axes.end());
  const auto evaluate = [&](const std::optional<Expression>& expression, const char* field,
                            double most, double& value) -> absl::Status {
    if (!expression) return absl::OkStatus();
    const absl::StatusOr<double> found = expression->Evaluate(variables);
    if (found.ok() && *found >= 0 && *found <= most) {
      value = *found;
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrCat(
        output.name, ".tolerance.", field, ": ",
        found.ok() ? absl::StrCat("expression ", Quoted(expression->text()), " is ",
                                  NumberText(*found), ", not a number from 0 to ", NumberText(most))
                   : std::string(found.status().message())));
  };
  KC_RETURN_IF_ERROR(evaluate(expressions.atol, "atol", most_absolute, tolerance.atol));
  KC_RETURN_IF_ERROR(evaluate(expressions.rtol, "rtol", kMaxTolerance, tolerance.rtol));
  KC_RETURN_IF_ERROR(evaluate(expressions.normwise, "normwise", kMaxTolerance, tolerance.normwise));
  return tolerance;
}

std::vector<AxisValues> HeldOutCorners(const Problem& problem) {
  std::vector<AxisValues> corners(size_t{1} << problem.axes.size());
  for (size_t corner = 0; corner < corners.size(); ++corner) {
    for (size_t i = 0; i < problem.axes.size(); ++i) {
      const Axis& axis = problem.axes[i];
      const int64_t first = (axis.held_out_low + axis.multiple_of - 1) / axis.multiple_of;
      const int64_t last = axis.held_out_high / axis.multiple_of;
      corners[corner][axis.name] = ((corner >> i & 1) != 0 ? last : first) * axis.multiple_of;
    }
  }
  return corners;
}

absl::StatusOr<Candidate> ReferenceCandidate(const Problem& problem, std::string_view target) {
  const auto found = problem.targets.find(target);
  if (found == problem.targets.end()) {
    std::vector<std::string> known;
    for (const auto& [name, unused] : problem.targets) known.push_back(name);
    return absl::NotFoundError(absl::StrCat("problem ", problem.name,
                                            " has no reference for target ", Quoted(target),
                                            "; it has ", CommaList(known)));
  }
  Candidate candidate;
  candidate.problem_id = problem.problem_id;
  candidate.target = found->first;
  const KernelProgram& reference = found->second.reference;
  candidate.kind = found->second.kind;
  candidate.source = reference.source;
  candidate.flags = reference.flags;
  candidate.launches = reference.launches;
  candidate.workspace_bytes = reference.workspace_bytes;
  candidate.origin = "reference";
  candidate.candidate_id = CandidateId(candidate);
  return candidate;
}

}  // namespace kernelcast
