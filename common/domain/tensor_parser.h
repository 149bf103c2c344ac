#ifndef KERNELCAST_COMMON_DOMAIN_TENSOR_PARSER_H_
#define KERNELCAST_COMMON_DOMAIN_TENSOR_PARSER_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/domain/problem.h"
#include "common/domain/yaml_cursor.h"

namespace kernelcast {

// Reads the problem file that a value names, and sets `path` to its name within the problem.
using ReadProblemFile =
    std::function<absl::StatusOr<std::string>(const Cursor& at, std::string& path)>;

// Parse the parts of problem.yaml that describe the values of one tensor, whose dtype is set.
// Errors are INVALID_ARGUMENT and name the file, line, field, value and what is allowed.
[[nodiscard]] absl::Status ParseInit(const Cursor& at, const std::vector<std::string>& axis_names,
                                     const ReadProblemFile& read, TensorSpec& tensor);
// Takes the whole tensor, because the key may be missing. Call after ParseInit.
[[nodiscard]] absl::Status ParseAdversarial(const Cursor& tensor_at, TensorSpec& tensor);
[[nodiscard]] absl::Status ParseTolerance(const Cursor& tensor_at,
                                          const std::vector<std::string>& axis_names,
                                          TensorSpec& tensor);

// Checks the values and the tolerance of a tensor at a shape. The error has no position.
[[nodiscard]] absl::Status CheckTensorAt(const TensorSpec& tensor, const AxisValues& shape);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_DOMAIN_TENSOR_PARSER_H_
