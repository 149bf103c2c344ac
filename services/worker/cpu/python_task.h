#ifndef KERNELCAST_SERVICES_WORKER_CPU_PYTHON_TASK_H_
#define KERNELCAST_SERVICES_WORKER_CPU_PYTHON_TASK_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/domain/problem.h"
#include "common/process/memory_file.h"
#include "services/worker/core/cancel.h"
#include "services/worker/cpu/placement.h"
#include "services/worker/cpu/runner_process.h"
#include "services/worker/python/task_programs.h"

namespace kernelcast::worker {

// Runs the task once in a sandboxed process to find out what its inputs and outputs are.
// `held_out_seed`: of cases that the task does not list, where its format allows such.
// FAILED_PRECONDITION: the task fails, or has inputs or outputs that are not supported; the
// message has what it printed. Returns the token's status when it is stopped.
[[nodiscard]] absl::StatusOr<PythonTaskPrograms> DescribePythonTask(const Problem& problem,
                                                                    const RunnerOptions& options,
                                                                    const Placement& placement,
                                                                    uint64_t held_out_seed,
                                                                    const CancelToken& cancel);

// A process that draws inputs by the task's own code. No code of a candidate runs in it. Not
// thread-safe.
class PythonInputs {
 public:
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<PythonInputs>> Start(
      const PythonTaskPrograms& task, const RunnerOptions& options, const Placement& placement,
      const CancelToken& cancel);

  // The bytes of each input tensor of a case. Draws with other seeds differ, where the task allows
  // that.
  [[nodiscard]] absl::StatusOr<std::vector<std::string>> Draw(size_t case_index, uint64_t seed,
                                                              const CancelToken& cancel);
  // DrawFlag, of the case that was drawn last.
  int64_t flags() const { return flags_; }

 private:
  PythonInputs() = default;

  std::vector<std::vector<runner::TensorRecord>> tensors_;  // by case
  MemoryFile nothing_;
  MemoryFile made_;  // the seed, then the tensors
  int64_t flags_ = 0;
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

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CPU_PYTHON_TASK_H_
