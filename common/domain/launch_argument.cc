#include "common/domain/launch_argument.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <span>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/domain/text.h"

namespace kernelcast {
namespace {

// Integers up to this size are exact in a double.
constexpr int64_t kMaxExact = int64_t{1} << 53;

struct ScalarTypeRow {
  ScalarType type;
  const char* name;
  int64_t size_bytes;
  double largest;  // for floating-point types; 0: an integer type
  int64_t low;
  int64_t high;
};

constexpr std::array<ScalarTypeRow, 13> kScalarTypes = {{
    {ScalarType::kBool, "bool", 1, 0, 0, 1},
    {ScalarType::kInt8, "int8", 1, 0, -128, 127},
    {ScalarType::kUint8, "uint8", 1, 0, 0, 255},
    {ScalarType::kInt16, "int16", 2, 0, -32768, 32767},
    {ScalarType::kUint16, "uint16", 2, 0, 0, 65535},
    {ScalarType::kInt32, "int32", 4, 0, std::numeric_limits<int32_t>::min(),
     std::numeric_limits<int32_t>::max()},
    {ScalarType::kUint32, "uint32", 4, 0, 0, std::numeric_limits<uint32_t>::max()},
    {ScalarType::kInt64, "int64", 8, 0, -kMaxExact, kMaxExact},
    {ScalarType::kUint64, "uint64", 8, 0, 0, kMaxExact},
    {ScalarType::kFloat16, "float16", 2, 65504, 0, 0},
    {ScalarType::kBfloat16, "bfloat16", 2, 3.3895313892515355e38, 0, 0},
    {ScalarType::kFloat32, "float32", 4, std::numeric_limits<float>::max(), 0, 0},
    {ScalarType::kFloat64, "float64", 8, std::numeric_limits<double>::max(), 0, 0},
}};

struct Alias {
  const char* name;
  ScalarType type;
};
constexpr Alias kAliases[] = {
    {"int", ScalarType::kInt32},      {"uint", ScalarType::kUint32},
    {"half", ScalarType::kFloat16},   {"float", ScalarType::kFloat32},
    {"double", ScalarType::kFloat64}, {"i8", ScalarType::kInt8},
    {"u8", ScalarType::kUint8},       {"i16", ScalarType::kInt16},
    {"u16", ScalarType::kUint16},     {"i32", ScalarType::kInt32},
    {"u32", ScalarType::kUint32},     {"i64", ScalarType::kInt64},
    {"u64", ScalarType::kUint64},     {"f16", ScalarType::kFloat16},
    {"bf16", ScalarType::kBfloat16},  {"f32", ScalarType::kFloat32},
    {"f64", ScalarType::kFloat64},
};

const ScalarTypeRow& Row(ScalarType type) { return kScalarTypes[static_cast<size_t>(type)]; }

std::optional<ScalarType> FindScalarType(std::string_view name) {
  for (const ScalarTypeRow& row : kScalarTypes) {
    if (name == row.name) return row.type;
  }
  for (const Alias& alias : kAliases) {
    if (name == alias.name) return alias.type;
  }
  return std::nullopt;
}

std::string TypeNames() {
  std::vector<std::string> names;
  for (const ScalarTypeRow& row : kScalarTypes) names.emplace_back(row.name);
  return absl::StrCat(CommaList(names), ", or a C name such as int or float");
}

template <class Number>
std::optional<Number> ParseWhole(std::string_view text) {
  Number value{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end && !text.empty() ? std::optional(value) : std::nullopt;
}

// Whether the text looks like one integer, even if it is out of range.
bool IsNumeral(std::string_view text) {
  if (!text.empty() && text[0] == '-') text.remove_prefix(1);
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

absl::Status OutOfRange(const ScalarTypeRow& row, const std::string& value) {
  if (row.largest > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(value, " is not a finite number that ", row.name, " can hold"));
  }
  if (row.size_bytes == 8) {
    return absl::InvalidArgumentError(
        absl::StrCat(value, " is not a whole number that ", row.name, " can hold"));
  }
  return absl::InvalidArgumentError(absl::StrCat(value, " is not a whole number from ", row.low,
                                                 " to ", row.high, ", which ", row.name,
                                                 " can hold"));
}

// Parses an integer. Covers the type's whole range, including values that a double cannot
// represent.
absl::StatusOr<ScalarValue> ParseNumeral(ScalarType type, std::string_view text) {
  const ScalarTypeRow& row = Row(type);
  if (type == ScalarType::kUint64) {
    if (const auto value = ParseWhole<uint64_t>(text)) return ScalarValue(*value);
    return OutOfRange(row, Quoted(text));
  }
  const auto value = ParseWhole<int64_t>(text);
  if (!value || (type != ScalarType::kInt64 && (*value < row.low || *value > row.high))) {
    return OutOfRange(row, Quoted(text));
  }
  return ScalarValue(*value);
}

}  // namespace

int64_t SizeBytes(ScalarType type) { return Row(type).size_bytes; }
bool IsFloat(ScalarType type) { return Row(type).largest > 0; }
std::string_view Name(ScalarType type) { return Row(type).name; }
std::pair<int64_t, int64_t> ExactRange(ScalarType type) { return {Row(type).low, Row(type).high}; }

absl::StatusOr<ScalarType> ParseScalarType(std::string_view name) {
  if (const std::optional<ScalarType> type = FindScalarType(name)) return *type;
  return absl::InvalidArgumentError(absl::StrCat(Quoted(name), " is not one of ", TypeNames()));
}

absl::StatusOr<ScalarValue> ConvertScalar(ScalarType type, double value) {
  const ScalarTypeRow& row = Row(type);
  if (row.largest > 0) {
    if (std::abs(value) <= row.largest) return ScalarValue(value);
    return OutOfRange(row, NumberText(value));
  }
  if (value != std::floor(value) || value < static_cast<double>(row.low) ||
      value > static_cast<double>(row.high)) {
    return OutOfRange(row, NumberText(value));
  }
  if (type == ScalarType::kUint64) return ScalarValue(static_cast<uint64_t>(value));
  return ScalarValue(static_cast<int64_t>(value));
}

absl::StatusOr<LaunchArgument> ParseLaunchArgument(std::string_view text) {
  LaunchArgument argument;
  if (IsIdentifier(text) && text != kWorkspaceArgument) {
    argument.name = std::string(text);
    return argument;
  }
  if (text.starts_with(kWorkspaceArgument)) {
    const std::string_view rest = Trim(text.substr(kWorkspaceArgument.size()));
    if (rest.empty() || rest[0] == '+') {
      argument.kind = LaunchArgument::Kind::kWorkspace;
      argument.expression = rest.empty() ? "" : std::string(Trim(rest.substr(1)));
      if (!rest.empty() && argument.expression.empty()) {
        return absl::InvalidArgumentError(
            absl::StrCat(Quoted(text), " lacks the offset in bytes after '+'"));
      }
      return argument;
    }
  }
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat(Quoted(text),
                     " is not a tensor, an axis or workspace; an expression needs a type, such as ",
                     Quoted(absl::StrCat(std::string(text.substr(0, 64)), ":int"))));
  }
  const absl::StatusOr<ScalarType> type = ParseScalarType(Trim(text.substr(colon + 1)));
  if (!type.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(Quoted(text), ": the type ", type.status().message()));
  }
  argument.kind = LaunchArgument::Kind::kScalar;
  argument.type = *type;
  argument.expression = std::string(Trim(text.substr(0, colon)));
  if (argument.expression.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(Quoted(text), " lacks a value before the ':'"));
  }
  if (!IsFloat(*type) && IsNumeral(argument.expression)) {
    absl::StatusOr<ScalarValue> literal = ParseNumeral(*type, argument.expression);
    if (!literal.ok()) return literal.status();
    argument.literal = *literal;
    return argument;
  }
  double value = 0;
  const char* const begin = argument.expression.data();
  const char* const end = begin + argument.expression.size();
  const auto [stop, error] = std::from_chars(begin, end, value);
  if (stop == end && error == std::errc::result_out_of_range) {
    return OutOfRange(Row(*type), Quoted(argument.expression));
  }
  if (stop == end && error == std::errc()) {
    absl::StatusOr<ScalarValue> literal = ConvertScalar(*type, value);
    if (!literal.ok()) return OutOfRange(Row(*type), Quoted(argument.expression));
    argument.literal = *literal;
  }
  return argument;
}

absl::StatusOr<ScalarValue> EvaluateScalar(const LaunchArgument& argument,
                                           const Variables& variables) {
  if (argument.literal) return *argument.literal;
  std::vector<std::string> names;
  names.reserve(variables.size());
  for (const auto& [name, value] : variables) names.push_back(name);
  KC_ASSIGN_OR_RETURN(const Expression expression, Expression::Parse(argument.expression, names));
  KC_ASSIGN_OR_RETURN(const double value, expression.Evaluate(variables));
  absl::StatusOr<ScalarValue> converted = ConvertScalar(argument.type, value);
  if (!converted.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(Quoted(argument.expression), ": ", converted.status().message()));
  }
  return converted;
}

absl::Status CheckArgumentExpression(const LaunchArgument& argument,
                                     const std::vector<std::string>& names) {
  if (argument.expression.empty() || argument.literal) return absl::OkStatus();
  return Expression::Parse(argument.expression, names).status();
}

}  // namespace kernelcast
