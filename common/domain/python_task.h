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

// "kernelbench", "flashinfer_bench", "sol_execbench", "gpu_mode", "gpu_mode_eval".
std::string_view Name(PythonTask::Format format);

// Whether the files are a task and not a folder with problem.yaml: NAME.py (KernelBench), NAME.json
// and NAME.jsonl (a flashinfer-bench definition and its workloads), definition.json and
// workload.jsonl (SOL-ExecBench), or task.yml (GPU MODE). Each may have files of a space
// (task_space.h).
bool IsPythonTask(const std::vector<ProblemFile>& files);

// Makes a problem of a task's files. INVALID_ARGUMENT: "relu.py: does not define 'get_inputs' ...".
[[nodiscard]] absl::StatusOr<Problem> ParsePythonTask(std::vector<ProblemFile> files);

// Baselines besides the reference as it is, which is `eager`. `compile` is the reference under
// torch.compile.
inline constexpr std::string_view kEagerBaseline = "eager";
inline constexpr std::string_view kCompiledBaseline = "compile";
// Whose rules decide about outputs: those of Kernelcast and the task's format, or only the
// format's. See RuleText.
inline constexpr std::string_view kAllRules = "kernelcast";
inline constexpr std::string_view kTaskRules = "task";

// How a task is judged, as a user chooses. Empty: as the task's files say.
struct TaskOptions {
  std::string baseline = {};
  std::string rules = {};
};
// Files that may be added to those of a task: the name of a baseline, and whose rules decide. Other
// contents make another problem.
inline constexpr std::string_view kBaselineFile = "kernelcast.baseline";
inline constexpr std::string_view kRulesFile = "kernelcast.rules";
// Adds those files. INVALID_ARGUMENT: the problem is no PyTorch task, or there is no such baseline.
[[nodiscard]] absl::StatusOr<Problem> WithOptions(const Problem& problem,
                                                  const TaskOptions& options);

// Flag of a candidate that is the task's reference under torch.compile. Workers make it.
inline constexpr std::string_view kTorchCompileFlag = "torch.compile";

// The name of the reference in a task's source: "Model", "run" or "ref_kernel"; empty where it has
// the names of a candidate (PythonTask::entries).
std::string_view ReferenceName(PythonTask::Format format);

// Whether the task's own code decides if outputs are right. Tolerances then only say which elements
// are suspicious.
bool HasChecker(PythonTask::Format format);

// The rule for floating-point outputs of a case.
Tolerance TaskTolerance(const PythonTask& task, const PythonTask::Case& task_case, DataType dtype);

// The format's rule of passing, for results: "kernelbench: every element within 0.0001 + 0.0001 *
// abs(expected)". Kernelcast's own rule follows where the tolerance has it.
std::string RuleText(PythonTask::Format format, const Tolerance& tolerance);
// The rule that outputs break which are not written completely. It holds in every format.
inline constexpr std::string_view kWrittenRule = "kernelcast: every element is written";

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_DOMAIN_PYTHON_TASK_H_
