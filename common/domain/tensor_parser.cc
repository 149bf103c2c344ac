#include "common/domain/tensor_parser.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <memory>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/domain/npy_file.h"
#include "common/domain/text.h"

namespace kernelcast {
namespace {

constexpr double kMaxExponent = 20;
// Limit of a logarithm, so that float64 can hold the value.
constexpr double kMaxLogarithm = 300;
constexpr Adversarial kAdversarials[] = {Adversarial::kLarge, Adversarial::kEqualRows,
                                         Adversarial::kZeros, Adversarial::kExtreme};
constexpr DataType kPrecisions[] = {DataType::kFloat32, DataType::kFloat16, DataType::kBfloat16,
                                    DataType::kFloat8E4m3, DataType::kFloat8E5m2};

// Range of integers that both the dtype and a double represent exactly.
std::pair<int64_t, int64_t> IntegerRange(DataType dtype) {
  constexpr int64_t kExact = int64_t{1} << 53;
  switch (dtype) {
    case DataType::kInt32:
      return {std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()};
    case DataType::kInt8: return {-128, 127};
    case DataType::kUint8: return {0, 255};
    case DataType::kFloat32: return {-(1 << 24), 1 << 24};
    case DataType::kFloat16: return {-2048, 2048};
    case DataType::kBfloat16: return {-256, 256};
    case DataType::kFloat8E4m3: return {-16, 16};
    case DataType::kFloat8E5m2: return {-8, 8};
    case DataType::kInt64:
    case DataType::kFloat64: break;
  }
  return {-kExact, kExact};
}

// The largest finite value of a dtype.
double LargestFinite(DataType dtype) {
  switch (dtype) {
    case DataType::kFloat32: return std::numeric_limits<float>::max();
    case DataType::kFloat16: return 65504;
    case DataType::kBfloat16: return 3.3895313892515355e38;
    case DataType::kFloat8E4m3: return 448;
    case DataType::kFloat8E5m2: return 57344;
    default: return std::numeric_limits<double>::max();
  }
}

// Reads a number that is finite in the dtype, a floating-point one.
absl::StatusOr<double> ReadValue(const Cursor& at, DataType dtype) {
  if (dtype == DataType::kFloat64) return ReadNumber(at);
  return ReadNumber(at, -LargestFinite(dtype), LargestFinite(dtype));
}

// Keys for rounding drawn real numbers.
std::vector<std::string> WithQuantisation(std::vector<std::string> keys) {
  keys.insert(keys.end(), {"step", "precision"});
  return keys;
}

absl::Status ParseQuantisation(const Cursor& at, TensorSpec& tensor) {
  if (at.Has("step")) {
    KC_ASSIGN_OR_RETURN(tensor.quantisation.step, ReadNumber(at.At("step"), 1e-30, 1e30));
  }
  if (!at.Has("precision")) return absl::OkStatus();
  const Cursor precision = at.At("precision");
  KC_ASSIGN_OR_RETURN(const std::string name, ReadText(precision, kMaxYamlNameBytes));
  std::vector<std::string> allowed;
  for (const DataType dtype : kPrecisions) {
    if (SizeBytes(dtype) >= SizeBytes(tensor.dtype)) continue;
    allowed.emplace_back(Name(dtype));
    if (name == Name(dtype)) tensor.quantisation.precision = dtype;
  }
  if (tensor.quantisation.precision) return absl::OkStatus();
  return Error(
      precision,
      absl::StrCat(Quoted(name), " is not one of ", allowed.empty() ? "none" : CommaList(allowed),
                   ", which are narrower than ", std::string(Name(tensor.dtype))));
}

absl::StatusOr<InitDistribution> ParseNormal(const Cursor& at, bool logarithm, DataType dtype) {
  KC_RETURN_IF_ERROR(ExpectKeys(at, {"distribution"}, WithQuantisation({"mean", "stddev"})));
  double mean = 0;
  double stddev = 1;
  if (at.Has("mean")) {
    KC_ASSIGN_OR_RETURN(mean, logarithm ? ReadNumber(at.At("mean"), -kMaxLogarithm, kMaxLogarithm)
                                        : ReadValue(at.At("mean"), dtype));
  }
  if (at.Has("stddev")) {
    const double most = logarithm ? kMaxExponent : std::min(1e30, LargestFinite(dtype));
    KC_ASSIGN_OR_RETURN(stddev, ReadNumber(at.At("stddev"), 0, most));
  }
  if (logarithm) return LogNormal{mean, stddev};
  return Normal{mean, stddev};
}

absl::StatusOr<InitDistribution> ParseUniform(const Cursor& at, DataType dtype) {
  KC_RETURN_IF_ERROR(ExpectKeys(at, {"distribution", "low", "high"}, WithQuantisation({})));
  Uniform uniform;
  KC_ASSIGN_OR_RETURN(uniform.low, ReadValue(at.At("low"), dtype));
  KC_ASSIGN_OR_RETURN(uniform.high, ReadValue(at.At("high"), dtype));
  if (!(uniform.low < uniform.high)) return Error(at, "low must be less than high");
  if (!std::isfinite(uniform.high - uniform.low)) {
    return Error(at, absl::StrCat("high minus low, ", NumberText(uniform.high), " minus ",
                                  NumberText(uniform.low), ", is not a finite number"));
  }
  return uniform;
}

absl::StatusOr<InitDistribution> ParsePowerLaw(const Cursor& at) {
  KC_RETURN_IF_ERROR(
      ExpectKeys(at, {"distribution", "exponent", "low", "high"}, WithQuantisation({})));
  PowerLaw power_law;
  KC_ASSIGN_OR_RETURN(power_law.exponent, ReadNumber(at.At("exponent"), 0, kMaxExponent));
  KC_ASSIGN_OR_RETURN(power_law.low, ReadNumber(at.At("low"), 1e-30, 1e30));
  KC_ASSIGN_OR_RETURN(power_law.high, ReadNumber(at.At("high"), 1e-30, 1e30));
  if (!(power_law.low < power_law.high)) return Error(at, "low must be less than high");
  return power_law;
}

absl::StatusOr<InitDistribution> ParseWholeNumbers(const Cursor& at, bool skewed,
                                                   const std::vector<std::string>& axis_names) {
  std::vector<std::string> required = {"distribution", "low", "high"};
  if (skewed) required.emplace_back("exponent");
  KC_RETURN_IF_ERROR(ExpectKeys(at, required, {}));
  KC_ASSIGN_OR_RETURN(Expression low, ReadExpression(at.At("low"), axis_names));
  KC_ASSIGN_OR_RETURN(Expression high, ReadExpression(at.At("high"), axis_names));
  if (!skewed) return Integers{std::move(low), std::move(high)};
  KC_ASSIGN_OR_RETURN(const double exponent, ReadNumber(at.At("exponent"), 0.01, kMaxExponent));
  return Zipf{exponent, std::move(low), std::move(high)};
}

absl::StatusOr<InitDistribution> ParseConstant(const Cursor& at, DataType dtype) {
  KC_RETURN_IF_ERROR(ExpectKeys(at, {"distribution", "value"}, {}));
  Constant constant;
  if (IsFloat(dtype)) {
    KC_ASSIGN_OR_RETURN(constant.value, ReadValue(at.At("value"), dtype));
  } else {
    const auto [low, high] = IntegerRange(dtype);
    KC_ASSIGN_OR_RETURN(const int64_t value, ReadInteger(at.At("value"), low, high));
    constant.value = static_cast<double>(value);
  }
  return constant;
}

absl::StatusOr<InitDistribution> ParseFile(const Cursor& at, DataType dtype,
                                           const ReadProblemFile& read) {
  KC_RETURN_IF_ERROR(ExpectKeys(at, {"distribution", "file"}, {"start"}));
  FileValues values;
  if (at.Has("start")) {
    const Cursor start = at.At("start");
    KC_ASSIGN_OR_RETURN(const std::string name, ReadText(start, kMaxYamlNameBytes));
    if (name != "random" && name != "first") {
      return Error(start, Quoted(name) + " is not one of random, first");
    }
    values.random_start = name == "random";
  }
  const Cursor file = at.At("file");
  KC_ASSIGN_OR_RETURN(std::string content, read(file, values.path));
  if (values.path.ends_with(".npy")) {
    absl::StatusOr<std::string> elements = NpyElements(content, dtype);
    if (!elements.ok()) {
      return Error(file,
                   absl::StrCat("file ", Quoted(values.path), " ", elements.status().message()));
    }
    content = *std::move(elements);
  } else if (static_cast<int64_t>(content.size()) % SizeBytes(dtype) != 0) {
    return Error(file, absl::StrCat("file ", Quoted(values.path), " has ", content.size(),
                                    " bytes, not a multiple of the ", SizeBytes(dtype), " of ",
                                    std::string(Name(dtype))));
  }
  if (content.empty()) {
    return Error(file, absl::StrCat("file ", Quoted(values.path), " holds no element"));
  }
  values.elements = std::make_shared<const std::string>(std::move(content));
  return values;
}

std::string DistributionNames(bool is_float) {
  return is_float ? "normal, uniform, log_normal, power_law, integers, zipf, constant, file"
                  : "integers, zipf, constant, file";
}

// Checks the bounds of integer distributions.
absl::Status CheckBounds(const TensorSpec& tensor, const Expression& low_text,
                         const Expression& high_text, const Variables& variables) {
  const auto invalid = [&](const char* field, const absl::Status& cause) {
    return absl::InvalidArgumentError(
        absl::StrCat(tensor.name, ".init.", field, ": ", cause.message()));
  };
  const auto [least, most] = IntegerRange(tensor.dtype);
  const absl::StatusOr<int64_t> low = low_text.EvaluateInteger(variables, least, most);
  if (!low.ok()) return invalid("low", low.status());
  const absl::StatusOr<int64_t> high = high_text.EvaluateInteger(variables, *low, most);
  if (!high.ok()) return invalid("high", high.status());
  const bool zeros =
      std::ranges::find(tensor.adversarial, Adversarial::kZeros) != tensor.adversarial.end();
  if (!IsFloat(tensor.dtype) && zeros && (*low > 0 || *high < 0)) {
    return absl::InvalidArgumentError(absl::StrCat(
        tensor.name, ".adversarial: zeros lie outside the values ", *low, " to ", *high));
  }
  return absl::OkStatus();
}

absl::Status CheckFileSize(const TensorSpec& tensor, const FileValues& file,
                           const AxisValues& shape) {
  KC_ASSIGN_OR_RETURN(const std::vector<int64_t> extents, TensorShape(tensor, shape));
  int64_t elements = 1;
  for (const int64_t extent : extents) elements *= extent;
  const int64_t held = static_cast<int64_t>(file.elements->size()) / SizeBytes(tensor.dtype);
  if (file.random_start || held >= elements) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      tensor.name, ".init.file: ", Quoted(file.path), " holds ", held,
      " elements, and the tensor has ", elements, "; with 'start: random' the values repeat"));
}

// Reads a number, or an expression over the axes.
absl::Status ReadTolerance(const Cursor& at, double most,
                           const std::vector<std::string>& axis_names, double& constant,
                           std::optional<Expression>& expression) {
  const absl::StatusOr<double> number = ReadNumber(at);
  if (number.ok()) {
    KC_ASSIGN_OR_RETURN(constant, ReadNumber(at, 0, most));
    return absl::OkStatus();
  }
  KC_ASSIGN_OR_RETURN(expression, ReadExpression(at, axis_names));
  return absl::OkStatus();
}

}  // namespace

absl::Status ParseInit(const Cursor& at, const std::vector<std::string>& axis_names,
                       const ReadProblemFile& read, TensorSpec& tensor) {
  KC_RETURN_IF_ERROR(ExpectMapping(at));
  if (!at.Has("distribution")) return Error(at, "missing key 'distribution'");
  const Cursor distribution = at.At("distribution");
  KC_ASSIGN_OR_RETURN(const std::string name, ReadText(distribution, kMaxYamlNameBytes));
  const bool is_float = IsFloat(tensor.dtype);
  const auto parse = [&]() -> absl::StatusOr<InitDistribution> {
    if (name == "normal" && is_float) return ParseNormal(at, /*logarithm=*/false, tensor.dtype);
    if (name == "log_normal" && is_float) return ParseNormal(at, /*logarithm=*/true, tensor.dtype);
    if (name == "uniform" && is_float) return ParseUniform(at, tensor.dtype);
    if (name == "power_law" && is_float) return ParsePowerLaw(at);
    if (name == "integers") return ParseWholeNumbers(at, /*skewed=*/false, axis_names);
    if (name == "zipf") return ParseWholeNumbers(at, /*skewed=*/true, axis_names);
    if (name == "constant") return ParseConstant(at, tensor.dtype);
    if (name == "file") return ParseFile(at, tensor.dtype, read);
    return Error(distribution,
                 absl::StrCat(Quoted(name), " is not one of ", DistributionNames(is_float),
                              ", which ", std::string(Name(tensor.dtype)), " may have"));
  };
  KC_ASSIGN_OR_RETURN(tensor.init, parse());
  return ParseQuantisation(at, tensor);
}

absl::Status ParseAdversarial(const Cursor& tensor_at, TensorSpec& tensor) {
  const bool from_file = std::holds_alternative<FileValues>(tensor.init);
  if (!tensor_at.Has("adversarial")) {
    if (IsFloat(tensor.dtype) && !from_file) {
      tensor.adversarial.assign(std::begin(kAdversarials), std::end(kAdversarials));
    }
    return absl::OkStatus();
  }
  const Cursor at = tensor_at.At("adversarial");
  KC_RETURN_IF_ERROR(ExpectList(at, 0, std::size(kAdversarials)));
  if (from_file && !at.node->items.empty()) {
    return Error(at, "an input from a file has the file's values only; leave the list empty");
  }
  for (size_t i = 0; i < at.node->items.size(); ++i) {
    const Cursor item = at.Item(i);
    KC_ASSIGN_OR_RETURN(const std::string name, ReadText(item, kMaxYamlNameBytes));
    std::vector<std::string> allowed;
    const Adversarial* found = nullptr;
    for (const Adversarial& adversarial : kAdversarials) {
      // Large and extreme values make no sense for indices and counts.
      const bool for_integers =
          adversarial == Adversarial::kEqualRows || adversarial == Adversarial::kZeros;
      if (!IsFloat(tensor.dtype) && !for_integers) continue;
      allowed.emplace_back(Name(adversarial));
      if (name == Name(adversarial)) found = &adversarial;
    }
    if (found == nullptr) {
      return Error(item, absl::StrCat(Quoted(name), " is not one of ", CommaList(allowed),
                                      ", which ", std::string(Name(tensor.dtype)), " may have"));
    }
    if (std::ranges::find(tensor.adversarial, *found) != tensor.adversarial.end()) {
      return Error(item, Quoted(name) + " occurs twice");
    }
    tensor.adversarial.push_back(*found);
  }
  return absl::OkStatus();
}

absl::Status ParseTolerance(const Cursor& tensor_at, const std::vector<std::string>& axis_names,
                            TensorSpec& tensor) {
  const bool is_float = IsFloat(tensor.dtype);
  if (!tensor_at.Has("tolerance")) {
    if (!is_float) return absl::OkStatus();
    return Error(tensor_at, "missing key 'tolerance', which floating-point outputs need");
  }
  const Cursor at = tensor_at.At("tolerance");
  KC_RETURN_IF_ERROR(ExpectKeys(at, {"atol", "rtol", "normwise"}, {}));
  ToleranceExpressions& expressions = tensor.tolerance_expressions;
  KC_RETURN_IF_ERROR(ReadTolerance(at.At("atol"), is_float ? kMaxTolerance : kMaxIntegerTolerance,
                                   axis_names, tensor.tolerance.atol, expressions.atol));
  KC_RETURN_IF_ERROR(ReadTolerance(at.At("rtol"), kMaxTolerance, axis_names, tensor.tolerance.rtol,
                                   expressions.rtol));
  return ReadTolerance(at.At("normwise"), kMaxTolerance, axis_names, tensor.tolerance.normwise,
                       expressions.normwise);
}

absl::Status CheckTensorAt(const TensorSpec& tensor, const AxisValues& shape) {
  const Variables variables(shape.begin(), shape.end());
  if (const auto* integers = std::get_if<Integers>(&tensor.init)) {
    KC_RETURN_IF_ERROR(CheckBounds(tensor, integers->low, integers->high, variables));
  }
  if (const auto* zipf = std::get_if<Zipf>(&tensor.init)) {
    KC_RETURN_IF_ERROR(CheckBounds(tensor, zipf->low, zipf->high, variables));
  }
  if (const auto* file = std::get_if<FileValues>(&tensor.init)) {
    KC_RETURN_IF_ERROR(CheckFileSize(tensor, *file, shape));
  }
  return ToleranceAt(tensor, shape).status();
}

}  // namespace kernelcast
