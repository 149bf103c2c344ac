#ifndef KERNELCAST_COMMON_DOMAIN_LAUNCH_ARGUMENT_H_
#define KERNELCAST_COMMON_DOMAIN_LAUNCH_ARGUMENT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/domain/expression.h"

namespace kernelcast {

// C types that a kernel can take by value.
enum class ScalarType {
  kBool,
  kInt8,
  kUint8,
  kInt16,
  kUint16,
  kInt32,
  kUint32,
  kInt64,
  kUint64,
  kFloat16,
  kBfloat16,
  kFloat32,
  kFloat64,
};

int64_t SizeBytes(ScalarType type);
bool IsFloat(ScalarType type);
// "int32", "float32", ...
std::string_view Name(ScalarType type);
// Accepts the names above, the C names ("int", "float"), and short ones ("i32", "f32").
// INVALID_ARGUMENT lists them.
[[nodiscard]] absl::StatusOr<ScalarType> ParseScalarType(std::string_view name);
// Range of an integer type. For 64 bits, only the range that a double represents exactly.
std::pair<int64_t, int64_t> ExactRange(ScalarType type);

// A value of a scalar type: an integer, or a finite floating-point number.
using ScalarValue = std::variant<int64_t, uint64_t, double>;

// The name of the workspace among the arguments of a launch.
inline constexpr std::string_view kWorkspaceArgument = "workspace";

// One argument of a launch, as written.
struct LaunchArgument {
  enum class Kind {
    kName,       // "x": a tensor or an axis
    kWorkspace,  // "workspace", "workspace + 4*rows"
    kScalar,     // "3:int", "rows*cols:int64", "0.5:float"
  };
  Kind kind = Kind::kName;
  std::string name;                      // kName
  ScalarType type = ScalarType::kInt64;  // kScalar
  // kScalar: the value. kWorkspace: the offset in bytes, or empty.
  std::string expression;
  // kScalar, if the expression is a plain number: exact even if a double is not.
  std::optional<ScalarValue> literal;
};

// INVALID_ARGUMENT names the text and what is allowed. Does not parse expressions.
[[nodiscard]] absl::StatusOr<LaunchArgument> ParseLaunchArgument(std::string_view text);

// The value that the kernel gets for a kScalar. INVALID_ARGUMENT: the expression cannot be
// evaluated, or the type cannot hold the value.
[[nodiscard]] absl::StatusOr<ScalarValue> EvaluateScalar(const LaunchArgument& argument,
                                                         const Variables& variables);

// The same for a known value, such as the value of an axis.
[[nodiscard]] absl::StatusOr<ScalarValue> ConvertScalar(ScalarType type, double value);

// Checks that the expression, if any, can be parsed over these names.
[[nodiscard]] absl::Status CheckArgumentExpression(const LaunchArgument& argument,
                                                   const std::vector<std::string>& names);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_DOMAIN_LAUNCH_ARGUMENT_H_
