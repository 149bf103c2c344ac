#ifndef KERNELCAST_SERVICES_WORKER_CPU_PYTHON_TASK_H_
#define KERNELCAST_SERVICES_WORKER_CPU_PYTHON_TASK_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/domain/facts.h"
#include "common/domain/problem.h"
#include "common/process/memory_file.h"
#include "services/worker/core/cancel.h"
#include "services/worker/cpu/placement.h"
#include "services/worker/cpu/runner_process.h"

namespace kernelcast::worker {

// Starting takes this long at most, because the interpreter imports PyTorch.
inline constexpr int64_t kPythonStartLimitNs = 60'000'000'000;

// A Python task whose inputs and outputs are known, and the programs that its processes run. The
// content of a program is JSON for runner.py: `role`, `format`, `task` (the source), `candidate` (a
// source), and the arrays `inputs` and `outputs` of {"dtype", "shape"} or {"value"}. Immutable.
class PythonTaskPrograms {
 public:
  // Runs the task once in a sandboxed process to find out what its inputs and outputs are.
  // FAILED_PRECONDITION: the task fails, or has inputs or outputs that are not supported; the
  // message has what it printed. Returns the token's status when it is stopped.
  [[nodiscard]] static absl::StatusOr<PythonTaskPrograms> Describe(const Problem& problem,
                                                                   const RunnerOptions& options,
                                                                   const Placement& placement,
                                                                   const CancelToken& cancel);

  // The problem with its inputs and outputs.
  const Problem& problem() const { return problem_; }
  PythonProgram Reference() const { return Make("reference", ""); }
  PythonProgram Candidate(const std::string& source) const { return Make("candidate", source); }
  PythonProgram Inputs() const { return Make("inputs", ""); }

 private:
  PythonTaskPrograms() = default;
  PythonProgram Make(const char* role, const std::string& candidate) const;

  Problem problem_;
  std::string inputs_;   // JSON
  std::string outputs_;  // JSON
};

// A process that draws inputs by the task's own code. No code of a candidate runs in it. Not
// thread-safe.
class PythonInputs {
 public:
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<PythonInputs>> Start(
      const PythonTaskPrograms& task, const RunnerOptions& options, const Placement& placement,
      const CancelToken& cancel);

  // The bytes of each input tensor. The same seed gives the same values.
  [[nodiscard]] absl::StatusOr<std::vector<std::string>> Draw(uint64_t seed,
                                                              const CancelToken& cancel);

 private:
  PythonInputs() = default;

  std::vector<runner::TensorRecord> tensors_;
  MemoryFile seed_;
  MemoryFile made_;
  std::unique_ptr<RunnerProcess> process_;
};

// Facts of the schema python-source/1.
CompileFacts CountPythonSource(std::string_view source);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CPU_PYTHON_TASK_H_
