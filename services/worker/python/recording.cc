#include "services/worker/python/recording.h"

#include <cmath>
#include <string_view>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/bounded_json.h"
#include "common/base/status.h"
#include "common/base/utf8.h"
#include "common/domain/launch_argument.h"
#include "common/domain/text.h"
#include "nlohmann/json.hpp"
#include "services/worker/python/task_programs.h"

namespace kernelcast::worker {
namespace {

using Json = nlohmann::json;

// Larger integers are not exact in expressions.
constexpr int64_t kMaxInteger = int64_t{1} << 53;
constexpr double kMaxAmount = 1e18;
constexpr int64_t kMaxCount = 1 << 20;
constexpr size_t kMaxOperationNameBytes = 64;

absl::Status Malformed(const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat("the recording has ", what));
}

// Null if the field is absent.
const Json& Field(const Json& object, const char* name) {
  static const Json kAbsent;
  if (!object.is_object()) return kAbsent;
  const auto found = object.find(name);
  return found == object.end() ? kAbsent : *found;
}

absl::StatusOr<std::string> ReadText(const Json& json, const char* what, int64_t max_bytes) {
  if (!json.is_string()) return Malformed(absl::StrCat("no ", what));
  const auto& text = json.get_ref<const std::string&>();
  if (static_cast<int64_t>(text.size()) > max_bytes) {
    return Malformed(absl::StrCat("a ", what, " of more than ", max_bytes, " bytes"));
  }
  return text;
}

absl::StatusOr<int64_t> ReadInteger(const Json& json, const char* what, int64_t low, int64_t high) {
  const bool fits = json.is_number_integer() &&
                    (!json.is_number_unsigned() || json.get<uint64_t>() <= uint64_t{INT64_MAX});
  const int64_t value = fits ? json.get<int64_t>() : 0;
  if (!fits || value < low || value > high) {
    return Malformed(absl::StrCat("no ", what, " from ", low, " to ", high));
  }
  return value;
}

absl::StatusOr<double> ReadAmount(const Json& json, const char* what) {
  const double value = json.is_number() ? json.get<double>() : -1;
  if (!(value >= 0 && value <= kMaxAmount)) return Malformed(absl::StrCat("no ", what));
  return value;
}

absl::StatusOr<const Json*> ReadArray(const Json& object, const char* name, size_t most) {
  const Json& array = Field(object, name);
  if (!array.is_array()) return Malformed(absl::StrCat("no ", name));
  if (array.size() > most) {
    return Malformed(absl::StrCat(array.size(), " ", name, "; at most ", most, " are allowed"));
  }
  return &array;
}

// With a decimal point, which says that a constant is real.
std::string RealText(double value) {
  std::string text = NumberText(value, 17);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

absl::StatusOr<RecordedTensor> ReadRecordedTensor(const Json& json) {
  RecordedTensor tensor;
  KC_ASSIGN_OR_RETURN(const std::string dtype, ReadText(Field(json, "dtype"), "dtype", 32));
  const auto parsed = ParseTorchType(dtype);
  if (!parsed.ok()) {
    return Malformed(absl::StrCat("a tensor of ", Quoted(dtype), ", which is not supported"));
  }
  tensor.dtype = *parsed;
  KC_ASSIGN_OR_RETURN(tensor.elements, ReadInteger(Field(json, "elements"), "number of elements", 1,
                                                   kMaxTensorElements));
  if (Field(json, "low").is_null() || IsFloat(tensor.dtype)) return tensor;
  KC_ASSIGN_OR_RETURN(const int64_t low,
                      ReadInteger(Field(json, "low"), "smallest value", -kMaxInteger, kMaxInteger));
  KC_ASSIGN_OR_RETURN(const int64_t high,
                      ReadInteger(Field(json, "high"), "largest value", low, kMaxInteger));
  tensor.range = {low, high};
  return tensor;
}

absl::StatusOr<std::string> ReadArgument(const Json& json, size_t tensors) {
  if (const Json& tensor = Field(json, "tensor"); !tensor.is_null()) {
    KC_ASSIGN_OR_RETURN(const int64_t index, ReadInteger(tensor, "index of a tensor", 0,
                                                         static_cast<int64_t>(tensors) - 1));
    return RecordedTensorName(static_cast<size_t>(index));
  }
  if (const Json& number = Field(json, "int"); !number.is_null()) {
    KC_ASSIGN_OR_RETURN(const int64_t value,
                        ReadInteger(number, "integer argument", -kMaxInteger, kMaxInteger));
    // As Triton's launcher, which takes 32 bits for integers that fit.
    const bool is_short = value >= INT32_MIN && value <= INT32_MAX;
    return absl::StrCat(value, ":",
                        std::string(Name(is_short ? ScalarType::kInt32 : ScalarType::kInt64)));
  }
  const Json& number = Field(json, "float");
  if (!number.is_number() || !std::isfinite(number.get<double>())) {
    return Malformed("an argument that is neither a tensor nor a finite number");
  }
  return absl::StrCat(RealText(number.get<double>()), ":", std::string(Name(ScalarType::kFloat32)));
}

// The value of a constant as kernel.proto defines it.
absl::StatusOr<std::string> ReadConstant(const Json& json) {
  KC_ASSIGN_OR_RETURN(const std::string kind, ReadText(Field(json, "kind"), "kind", 8));
  const Json& value = Field(json, "value");
  if (kind == "none") return std::string("none");
  if (kind == "bool" && value.is_boolean()) {
    return std::string(value.get<bool>() ? "true" : "false");
  }
  if (kind == "int") {
    KC_ASSIGN_OR_RETURN(const int64_t number,
                        ReadInteger(value, "integer constant", -kMaxInteger, kMaxInteger));
    return absl::StrCat(number);
  }
  if (kind == "float" && value.is_number() && std::isfinite(value.get<double>())) {
    return RealText(value.get<double>());
  }
  if (kind == "type") {
    KC_ASSIGN_OR_RETURN(const std::string type, ReadText(value, "type", 64));
    if (IsIdentifier(type)) return absl::StrCat("tl.", type);
  }
  if (kind == "text") {
    KC_ASSIGN_OR_RETURN(const std::string text, ReadText(value, "text", 256));
    if (!absl::StrContains(text, '\'')) return absl::StrCat("'", text, "'");
  }
  return Malformed("a constant that launches cannot express");
}

absl::StatusOr<Launch> ReadLaunch(const Json& json, size_t tensors) {
  Launch launch;
  KC_ASSIGN_OR_RETURN(launch.kernel, ReadText(Field(json, "kernel"), "kernel", 256));
  KC_ASSIGN_OR_RETURN(const Json* const grid, ReadArray(json, "grid", 3));
  for (const Json& size : *grid) {
    KC_ASSIGN_OR_RETURN(const int64_t blocks,
                        ReadInteger(size, "size of the grid", 1, kMaxInteger));
    launch.grid.push_back(absl::StrCat(blocks));
  }
  KC_ASSIGN_OR_RETURN(const Json* const arguments,
                      ReadArray(json, "arguments", kMaxLaunchArguments));
  for (const Json& argument : *arguments) {
    KC_ASSIGN_OR_RETURN(launch.arguments.emplace_back(), ReadArgument(argument, tensors));
  }
  const Json& constants = Field(json, "constants");
  if (!constants.is_object() || constants.size() > kMaxConstexprs) {
    return Malformed(absl::StrCat("no constants, or more than ", kMaxConstexprs));
  }
  for (const auto& [name, value] : constants.items()) {
    Constexpr& constant = launch.constexprs.emplace_back();
    constant.name = name;
    KC_ASSIGN_OR_RETURN(constant.value, ReadConstant(value));
  }
  KC_ASSIGN_OR_RETURN(const int64_t warps,
                      ReadInteger(Field(json, "num_warps"), "num_warps", 0, kMaxNumWarps));
  KC_ASSIGN_OR_RETURN(const int64_t stages,
                      ReadInteger(Field(json, "num_stages"), "num_stages", 0, kMaxNumStages));
  launch.num_warps = static_cast<int32_t>(warps);
  launch.num_stages = static_cast<int32_t>(stages);
  return launch;
}

absl::StatusOr<RecordedOperation> ReadOperation(const Json& json) {
  using Unit = RecordedOperation::Unit;
  constexpr std::pair<std::string_view, Unit> kUnits[] = {
      {"float32", Unit::kFloat32},      {"float64", Unit::kFloat64},
      {"matrix_half", Unit::kHalf},     {"matrix_tf32", Unit::kTf32},
      {"matrix_float8", Unit::kFloat8}, {"matrix_float64", Unit::kMatrixFloat64},
  };
  RecordedOperation operation;
  KC_ASSIGN_OR_RETURN(operation.name,
                      ReadText(Field(json, "name"), "name", kMaxOperationNameBytes));
  KC_ASSIGN_OR_RETURN(operation.bytes, ReadAmount(Field(json, "bytes"), "number of bytes"));
  KC_ASSIGN_OR_RETURN(operation.operations,
                      ReadAmount(Field(json, "operations"), "number of operations"));
  KC_ASSIGN_OR_RETURN(operation.count, ReadInteger(Field(json, "count"), "count", 1, kMaxCount));
  KC_ASSIGN_OR_RETURN(const std::string unit, ReadText(Field(json, "unit"), "unit", 32));
  for (const auto& [name, known] : kUnits) {
    if (name != unit) continue;
    operation.unit = known;
    return operation;
  }
  return Malformed("an operation of an unknown unit");
}

}  // namespace

std::string RecordedTensorName(size_t index) { return absl::StrCat("t", index); }

absl::StatusOr<Recording> ReadRecording(const std::string& text) {
  if (static_cast<int64_t>(text.size()) > kMaxRecordingBytes) return Malformed("too many bytes");
  const Json json = ParseBoundedJson(text);
  if (!json.is_object()) return Malformed("not the form of an object");
  Recording recording;
  if (const Json& reason = Field(json, "not_recorded"); !reason.is_null()) {
    KC_ASSIGN_OR_RETURN(const std::string why, ReadText(reason, "reason", kMaxRecordingBytes));
    const std::string clean = SanitizeUtf8(why);
    recording.not_recorded = std::string(TruncateUtf8(clean, kMaxReasonBytes));
    for (char& c : recording.not_recorded) {
      if (static_cast<unsigned char>(c) < ' ') c = ' ';
    }
    if (recording.not_recorded.empty()) return Malformed("an empty reason");
    return recording;
  }
  KC_ASSIGN_OR_RETURN(recording.source, ReadText(Field(json, "source"), "source", kMaxSourceBytes));
  KC_ASSIGN_OR_RETURN(const Json* const tensors, ReadArray(json, "tensors", kMaxRecordedTensors));
  for (const Json& tensor : *tensors) {
    KC_ASSIGN_OR_RETURN(recording.tensors.emplace_back(), ReadRecordedTensor(tensor));
  }
  KC_ASSIGN_OR_RETURN(const Json* const launches, ReadArray(json, "launches", kMaxLaunches));
  for (const Json& launch : *launches) {
    KC_ASSIGN_OR_RETURN(recording.launches.emplace_back(),
                        ReadLaunch(launch, recording.tensors.size()));
  }
  KC_ASSIGN_OR_RETURN(const Json* const operations,
                      ReadArray(json, "operations", kMaxRecordedOperations));
  for (const Json& operation : *operations) {
    KC_ASSIGN_OR_RETURN(recording.operations.emplace_back(), ReadOperation(operation));
  }
  KC_ASSIGN_OR_RETURN(recording.needed_bytes,
                      ReadAmount(Field(json, "needed"), "number of needed bytes"));
  if (recording.launches.empty() && recording.operations.empty()) {
    return Malformed("neither launches nor operations");
  }
  return recording;
}

}  // namespace kernelcast::worker
