#ifndef KERNELCAST_COMMON_DOMAIN_PYTHON_TASK_H_
#define KERNELCAST_COMMON_DOMAIN_PYTHON_TASK_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/domain/problem.h"

namespace kernelcast {

// Tasks of other projects, read as they are. Their code runs only in a worker's sandbox, which also
// finds out what their inputs and outputs are.

// "kernelbench".
std::string_view Name(PythonTask::Format format);

// Whether the files are a task and not a folder with problem.yaml.
bool IsPythonTask(const std::vector<ProblemFile>& files);

// Makes a problem of a task's file. INVALID_ARGUMENT: "relu.py: does not define 'get_inputs' ...".
[[nodiscard]] absl::StatusOr<Problem> ParsePythonTask(std::vector<ProblemFile> files);

// What a candidate's source defines: "ModelNew".
std::string_view CandidateName(PythonTask::Format format);
// What a task's source defines for its reference: "Model".
std::string_view ReferenceName(PythonTask::Format format);

// The format's own rule for floating-point outputs: |got - expected| <= atol + rtol * |expected|.
Tolerance TaskTolerance(PythonTask::Format format, DataType dtype);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_DOMAIN_PYTHON_TASK_H_
