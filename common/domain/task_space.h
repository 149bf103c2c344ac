#ifndef KERNELCAST_COMMON_DOMAIN_TASK_SPACE_H_
#define KERNELCAST_COMMON_DOMAIN_TASK_SPACE_H_

#include <string_view>

#include "absl/status/statusor.h"
#include "common/domain/problem.h"
#include "common/domain/problem_files.h"

namespace kernelcast {

// The template space of a task: device code in CUDA and Triton for the target cuda. A task without
// this file has no space.
inline constexpr std::string_view kTaskSpaceFile = "space/cuda.yaml";
// Files of a task with such paths belong to its space.
inline constexpr std::string_view kTaskSpaceFolder = "space/";

// Parses kTaskSpaceFile and the templates that it names. The names in its launches are not checked:
// only a worker knows those of the task. INVALID_ARGUMENT and NOT_FOUND as for ParseProblem.
[[nodiscard]] absl::StatusOr<Space> ParseTaskSpace(ProblemFileReader& files);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_DOMAIN_TASK_SPACE_H_
