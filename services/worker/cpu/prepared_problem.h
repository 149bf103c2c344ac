#ifndef KERNELCAST_SERVICES_WORKER_CPU_PREPARED_PROBLEM_H_
#define KERNELCAST_SERVICES_WORKER_CPU_PREPARED_PROBLEM_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/secret_random.h"
#include "common/domain/problem.h"
#include "common/process/memory_file.h"
#include "services/worker/core/cancel.h"
#include "services/worker/core/inputs.h"
#include "services/worker/core/verification.h"
#include "services/worker/cpu/placement.h"
#include "services/worker/cpu/python_task.h"
#include "services/worker/cpu/runner_process.h"
#include "services/worker/judge/prepared_cases.h"
#include "services/worker/native/shared_object.h"

namespace kernelcast::worker {

// The parts that all candidates of a problem share: secret inputs, expected outputs, and a warm
// process with the reference. Kept for a number of candidates, then drawn anew.
//
// One memory file holds all inputs, read-only for runners. Files of tensors use huge pages where
// the system grants them, so that the same offsets collide in the caches of every process. Between
// candidates kBase is in the slots. Expected outputs exist only in this process.
//
// Not thread-safe: used under the timing lease.
class PreparedProblem : public PreparedCases {
 public:
  // The values of a bank for one case.
  struct Set {
    std::vector<std::string> inputs;  // bytes, by tensor; only of timed cases
    std::vector<ExpectedTensor> expected;
  };

  // How the problem is judged, where, and the key of its values.
  struct Setting {
    const MeasureOptions& options;
    const RunnerOptions& runner;
    const Placement& placement;
    SecretKey key;
  };

  // Draws inputs, runs the oracle and the reference on all of them, and checks the reference
  // against the oracle. FAILED_PRECONDITION: oracle or reference crash, they disagree, or the
  // oracle yields NaN, or preparing takes too long. RESOURCE_EXHAUSTED: the tensors do not fit into
  // memory. Returns the token's status when it is stopped.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<PreparedProblem>> Make(
      const Problem& problem, const Program& oracle, const Program& reference,
      const Setting& setting, const CancelToken& cancel);

  // The same for a Python task: its own code makes the inputs, and its reference is the oracle, in
  // another process.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<PreparedProblem>> MakeTask(
      const PythonTaskPrograms& task, const Setting& setting, const CancelToken& cancel);

  const Set& set(size_t index, Bank bank) const { return sets_[index][bank]; }
  // Whether there are values of kAltered.
  bool has_altered() const { return CanAlter(problem_); }
  RunnerProcess& reference() { return *reference_; }
  const std::vector<std::string>& missing_protections() const { return missing_protections_; }

  // Puts the inputs of a bank into a slot.
  void Put(size_t index, Bank bank) { Place(index, set(index, bank).inputs); }

  // Starts a runner for a candidate. Its output memory is fresh, or shared by all screenings so
  // that they have the same placement; nothing written by an earlier candidate is left in it.
  [[nodiscard]] absl::StatusOr<std::unique_ptr<RunnerProcess>> StartCandidate(
      const Program& program);
  // Replaces the reference's process by a new one with inputs and outputs in fresh memory, and
  // gives candidates fresh memory. No candidate may be running.
  [[nodiscard]] absl::Status RenewProcesses(const CancelToken& cancel);

  // The outputs of a case, as the candidate or the reference left them.
  enum class Owner { kCandidate, kReference };
  std::span<std::byte> Output(Owner owner, size_t index, size_t output) const;
  // Brings the inputs and the outputs of a case into the caches of the core that this runs on, the
  // outputs for writing.
  void Touch(Owner owner, size_t index) const;
  // Whether the bytes around the candidate's outputs of a case are unchanged.
  bool GuardsHold(size_t index) const;
  // Correctness cases share the memory of their outputs, so guards are set before each.
  void ResetGuards(size_t index);

  // The programs of a Python task.
  PythonProgram TaskReference() const { return task_->Reference(task_calls_); }
  PythonProgram TaskProgram(const Candidate& candidate) const {
    return task_->ProgramFor(candidate, task_calls_);
  }
  // Whether the task's own code decides about outputs.
  bool has_checker() const { return checker_ != nullptr; }
  // Why the task's checker refuses the outputs of a case; nothing if it accepts them.
  [[nodiscard]] absl::StatusOr<std::optional<std::string>> AskChecker(Owner owner, size_t index,
                                                                      const CancelToken& cancel);
  // Time limit for the start of a process.
  int64_t start_limit_ns() const {
    return task_ != nullptr ? kPythonStartLimitNs : options_.load_limit_ns;
  }

  const Placement& placement() const { return placement_; }

 private:
  PreparedProblem(const Problem& problem, Program reference, const Setting& setting)
      : PreparedCases(problem, kCpuTargetName, setting.options, setting.key),
        reference_program_(std::move(reference)),
        runner_options_(setting.runner),
        placement_(setting.placement) {}

  absl::Status Arrange();
  // RESOURCE_EXHAUSTED: the planned cases do not fit into this worker's memory.
  absl::Status CheckMemory() const;
  // After Arrange.
  absl::Status Prepare(const Program& oracle, const CancelToken& cancel);
  absl::Status FillCases();
  absl::Status RunOracle(const Program& oracle, const CancelToken& cancel);
  absl::Status RunReference(const CancelToken& cancel);
  absl::StatusOr<std::vector<std::string>> DrawInputs(const Case& at);
  // Puts inputs into the place of a case.
  void Place(size_t index, const std::vector<std::string>& inputs);
  void ClearOutputs();
  std::array<std::span<std::byte>, 2> Guards(size_t index, size_t output) const;
  absl::StatusOr<std::unique_ptr<RunnerProcess>> StartReady(
      const Program& program, const std::vector<runner::CaseRecord>& table,
      const MemoryFile& outputs, const std::string& who, const CancelToken& cancel) const;

  Program reference_program_;
  const RunnerOptions runner_options_;
  const Placement placement_;
  std::vector<std::array<Set, CasePlan::kBanks>> sets_;  // by case
  std::vector<runner::CaseRecord> table_;                // by case
  MemoryFile inputs_;
  MemoryFile candidate_outputs_;
  MemoryFile reference_outputs_;
  std::unique_ptr<RunnerProcess> reference_;
  // Python tasks only.
  std::vector<size_t> task_calls_;  // the task's case of each entry of the case table
  std::unique_ptr<PythonInputs> task_inputs_;
  std::unique_ptr<PythonChecker> checker_;
  std::vector<std::string> missing_protections_;
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CPU_PREPARED_PROBLEM_H_
