#ifndef KERNELCAST_SERVICES_WORKER_CPU_PYTHON_TASK_H_
#define KERNELCAST_SERVICES_WORKER_CPU_PYTHON_TASK_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/domain/facts.h"
#include "common/domain/problem.h"
#include "common/process/memory_file.h"
#include "services/worker/core/cancel.h"
#include "services/worker/core/inputs.h"
#include "services/worker/core/tensor.h"
#include "services/worker/cpu/placement.h"
#include "services/worker/cpu/runner_process.h"

namespace kernelcast::worker {

// Starting takes this long at most, because the interpreter imports PyTorch.
inline constexpr int64_t kPythonStartLimitNs = 60'000'000'000;

// One way to call a task, as its code described it.
struct TaskCase {
  AxisValues axes;
  bool held_out = false;  // a case that the task does not list
  std::vector<TensorLayout> inputs;
  std::vector<TensorLayout> outputs;
  std::vector<Tolerance> tolerances;  // by output
  std::string description;            // JSON: {"case", "inputs", "outputs", "written", "single"}
};

// A Python task whose cases are known, and the programs that its processes run. The content of a
// program is JSON for runner.py: `role`, `format`, `task` (the source), `details` (PythonTask),
// `candidate` (a source), `cases` (the descriptions) and `calls` (the case of each entry of the
// process's case table).
class PythonTaskPrograms {
 public:
  // Runs the task once in a sandboxed process to find out what its inputs and outputs are.
  // `held_out_seed`: of cases that the task does not list, where its format allows such.
  // FAILED_PRECONDITION: the task fails, or has inputs or outputs that are not supported; the
  // message has what it printed. Returns the token's status when it is stopped.
  [[nodiscard]] static absl::StatusOr<PythonTaskPrograms> Describe(const Problem& problem,
                                                                   const RunnerOptions& options,
                                                                   const Placement& placement,
                                                                   uint64_t held_out_seed,
                                                                   const CancelToken& cancel);

  // The problem with its inputs and outputs, which have the shapes of the first case.
  const Problem& problem() const { return problem_; }
  const std::vector<TaskCase>& cases() const { return cases_; }
  // The case with these axes. There must be one.
  size_t IndexOf(const AxisValues& axes) const;

  // The correctness cases of one sitting: each that the task checks, held-out ones, and each that
  // is timed, repeated with new seeds until there are `least`.
  std::vector<CaseSpec> CorrectnessCases(int least) const;

  // Programs whose case table has the cases of `calls`.
  using Calls = std::vector<size_t>;
  PythonProgram Reference(const Calls& calls) const { return Make("reference", "", calls); }
  PythonProgram Candidate(const std::string& source, const Calls& calls) const {
    return Make("candidate", source, calls);
  }
  // For a table with all cases in order.
  PythonProgram Inputs() const { return Make("inputs", "", AllCalls()); }
  PythonProgram Checker() const { return Make("check", "", AllCalls()); }

 private:
  PythonTaskPrograms() = default;
  PythonProgram Make(const char* role, const std::string& candidate, const Calls& calls) const;
  Calls AllCalls() const;
  absl::Status AddCase(const std::string& description);

  Problem problem_;
  std::vector<TaskCase> cases_;
  uint64_t held_out_seed_ = 0;
};

// A process that draws inputs by the task's own code. No code of a candidate runs in it. Not
// thread-safe.
class PythonInputs {
 public:
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<PythonInputs>> Start(
      const PythonTaskPrograms& task, const RunnerOptions& options, const Placement& placement,
      const CancelToken& cancel);

  // The bytes of each input tensor of a case. The same seed gives the same values.
  [[nodiscard]] absl::StatusOr<std::vector<std::string>> Draw(size_t case_index, uint64_t seed,
                                                              const CancelToken& cancel);

 private:
  PythonInputs() = default;

  std::vector<std::vector<runner::TensorRecord>> tensors_;  // by case
  MemoryFile seed_;
  MemoryFile made_;
  std::unique_ptr<RunnerProcess> process_;
};

// A process in which the task's own code decides whether outputs are right, from copies of them. No
// code of a candidate runs in it. Not thread-safe.
class PythonChecker {
 public:
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<PythonChecker>> Start(
      const PythonTaskPrograms& task, const RunnerOptions& options, const Placement& placement,
      const CancelToken& cancel);

  // Why the outputs are wrong, in the task's words; nothing if they are right. `inputs` and
  // `outputs` have the bytes of each tensor. FAILED_PRECONDITION: the task's code fails.
  using Tensors = std::vector<std::span<const std::byte>>;
  [[nodiscard]] absl::StatusOr<std::optional<std::string>> Check(size_t case_index,
                                                                 const Tensors& inputs,
                                                                 const Tensors& outputs,
                                                                 const CancelToken& cancel);

 private:
  PythonChecker() = default;

  std::vector<runner::CaseRecord> table_;
  MemoryFile inputs_;
  MemoryFile outputs_;
  std::unique_ptr<RunnerProcess> process_;
};

// Facts of the schema python-source/1.
CompileFacts CountPythonSource(std::string_view source);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CPU_PYTHON_TASK_H_
