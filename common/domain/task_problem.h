#ifndef KERNELCAST_COMMON_DOMAIN_TASK_PROBLEM_H_
#define KERNELCAST_COMMON_DOMAIN_TASK_PROBLEM_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/domain/problem.h"

namespace kernelcast {

// The readers of the formats of Python tasks, and what they share. Use ParsePythonTask.

inline constexpr size_t kMaxTaskCases = 64;
// Cases that are timed.
inline constexpr size_t kMaxTimedCases = 8;

struct TaskParts {
  PythonTask task;
  std::string title;
  std::string description;
  std::string family;           // empty: the format has none
  std::vector<size_t> checked;  // indices of cases
  std::vector<size_t> timed;
};
// Adds the axis `axis_name` with the index of the case where axes alone do not tell cases apart.
Problem MakeTaskProblem(TaskParts parts, std::vector<ProblemFile> files,
                        const std::string& axis_name);

// At most `most` of the items, evenly spread, with the first and the last.
std::vector<size_t> Spread(const std::vector<size_t>& items, size_t most);

// UTF-8 without NUL, of an allowed size.
[[nodiscard]] absl::Status CheckTaskSource(const std::string& file, const std::string& content);
// Whether a line at the source's top level starts with `text`.
bool HasLine(std::string_view source, std::string_view text);

// "NAME.json" without the extension.
std::string PathStem(const std::string& path);
// The content of a file, or null.
const std::string* FindFile(const std::vector<ProblemFile>& files, std::string_view path);

// A definition and its workloads: flashinfer-bench (NAME.json, NAME.jsonl) and SOL-ExecBench
// (definition.json, workload.jsonl and maybe reference.py). Files of tensors have the paths that
// the workloads give them.
bool IsFlashInferBench(const std::vector<ProblemFile>& files);
bool IsSolExecBench(const std::vector<ProblemFile>& files);
// The .safetensors files that workloads name, in the order of their first use.
std::vector<std::string> TensorFilesOf(std::string_view workloads);
[[nodiscard]] absl::StatusOr<Problem> ParseDefinitionTask(PythonTask::Format format,
                                                          std::vector<ProblemFile> files);

// The files of a flashinfer-bench task with up to `count` other workloads, whose sizes are drawn:
// each axis of kind var gets a size between half and twice that of a workload. The same seed draws
// the same sizes. Only workloads with inputs of random floating-point values and floating-point
// scalars are drawn from, because other values may depend on sizes. A constraint "AXIS ==
// EXPRESSION" gives the axis its size, and all constraints hold.
//
// Empty: another format, no such workload, a constraint that is not understood, or no draw that
// differs from the task's own workloads.
std::optional<std::vector<ProblemFile>> DrawWorkloads(const Problem& problem, std::string_view seed,
                                                      int count);

// A number from `low` to `high`, drawn by the key and the axis.
int64_t DrawBetween(int64_t low, int64_t high, std::string_view key, std::string_view axis);

// task.yml and the files that it names, under the names that it gives them. eval.py and
// submission.py are among them only if NeedsGpuModeProgram.
bool IsGpuMode(const std::vector<ProblemFile>& files);
[[nodiscard]] absl::StatusOr<Problem> ParseGpuModeTask(std::vector<ProblemFile> files);
// A file that task.yml names.
struct GpuModeFile {
  std::string name;
  std::string source;  // a path relative to the folder of task.yml, maybe with "../"
};
struct GpuModeFiles {
  // What a candidate's program consists of, without the candidate.
  std::vector<GpuModeFile> modules;
  // What judges it elsewhere (eval.py). Without a name: none.
  GpuModeFile program;
};
// INVALID_ARGUMENT: "task.yml:3: ...".
[[nodiscard]] absl::StatusOr<GpuModeFiles> ReadGpuModeFiles(const std::string& yaml);
// Whether reference.py lacks the functions that the judge calls. The task then also consists of the
// program, and of submission.py, which is the reference.
bool NeedsGpuModeProgram(const std::vector<ProblemFile>& files);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_DOMAIN_TASK_PROBLEM_H_
