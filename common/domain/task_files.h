#ifndef KERNELCAST_COMMON_DOMAIN_TASK_FILES_H_
#define KERNELCAST_COMMON_DOMAIN_TASK_FILES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/domain/problem.h"

namespace kernelcast {

// Whether a path names a Python task: FILE.py, a flashinfer-bench definition (FILE.json), or a
// folder with task.yml, or with definition.json and workload.jsonl.
bool IsTaskPath(const std::string& path);

// Reads the files of the task at a path. The workloads of DATA/definitions/OP/NAME.json are in
// DATA/workloads/OP/NAME.jsonl, or next to the definition. A folder's space (task_space.h) is part
// of the task. NOT_FOUND: a file is missing.
// INVALID_ARGUMENT: one is too large, or task.yml or the space is malformed.
[[nodiscard]] absl::StatusOr<std::vector<ProblemFile>> ReadTaskFiles(const std::string& path);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_DOMAIN_TASK_FILES_H_
