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
#include "common/base/clock.h"
#include "common/base/secret_random.h"
#include "common/domain/problem.h"
#include "common/process/memory_file.h"
#include "services/worker/core/cancel.h"
#include "services/worker/core/inputs.h"
#include "services/worker/core/options.h"
#include "services/worker/core/verification.h"
#include "services/worker/cpu/placement.h"
#include "services/worker/cpu/python_task.h"
#include "services/worker/cpu/runner_process.h"
#include "services/worker/native/shared_object.h"
#include "services/worker/python/call_tensors.h"

namespace kernelcast::worker {

// The parts that all candidates of a problem share: secret inputs, expected outputs, and a warm
// process with the reference. Kept for a number of candidates, then drawn anew.
//
// One memory file holds all inputs, read-only for runners. Files of tensors use huge pages where
// the system grants them, so that the same offsets collide in the caches of every process. Each
// correctness case has its place in the file. Each bench shape has slots that timed calls rotate
// through, and two banks of contents for them. One bank is in the slots; a candidate sees the other
// for the first time after timing, at the same addresses. Expected outputs exist only in this
// process.
//
// Not thread-safe: used under the timing lease.
class PreparedProblem {
 public:
  // Contents of one slot.
  struct Set {
    std::vector<std::string> inputs;  // bytes, by tensor
    std::vector<ExpectedTensor> expected;
  };

  struct CheckCase {
    CaseSpec spec;
    uint32_t index = 0;  // index in the case table
    std::vector<ExpectedTensor> expected;
    int64_t reference_ns = 0;
  };

  struct BenchShape {
    AxisValues axes;
    std::vector<uint32_t> slots;  // indices in the case table
    std::vector<Set> banks[2];    // by slot
    // Each bank with a few of its values replaced; empty where that is not possible.
    std::vector<Set> altered[2];
    int current_bank = 0;
    int64_t reference_ns = 0;
    double bytes = 0;  // traffic and work of a call; 0: not known
    double flops = 0;

    const std::vector<Set>& current() const { return banks[current_bank]; }
    const std::vector<Set>& other() const { return banks[1 - current_bank]; }
    bool can_alter() const { return !altered[0].empty(); }
    const std::vector<Set>& altered_current() const { return altered[current_bank]; }
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

  const Problem& problem() const { return problem_; }
  std::vector<CheckCase>& check_cases() { return check_cases_; }
  std::vector<BenchShape>& bench_shapes() { return bench_shapes_; }
  RunnerProcess& reference() { return *reference_; }
  const std::vector<std::string>& missing_protections() const { return missing_protections_; }

  // Values that slots of a bench shape may hold instead of their current bank.
  enum class NewValues {
    // The current bank with a few values replaced. Branches are as predictable as on the current
    // bank, but a kernel that looks up what it has seen has not seen this.
    kAltered,
    kOther,  // the other bank
  };
  // Draws inputs that nobody has seen, for one slot.
  [[nodiscard]] absl::StatusOr<std::vector<std::string>> DrawUnseen(const BenchShape& shape);
  // The current inputs of a slot, with a few values replaced by those of `unseen`. Only for a shape
  // that can be altered.
  std::vector<std::string> Altered(const BenchShape& shape, size_t slot,
                                   const std::vector<std::string>& unseen);
  // Puts inputs into a slot.
  void Put(const BenchShape& shape, size_t slot, const std::vector<std::string>& inputs) {
    Place(shape.slots[slot], inputs);
  }
  // Makes the other bank the current one, for the next candidate.
  void Swap(BenchShape& shape);

  // Starts a runner for a candidate. Its output memory is fresh, or shared by all screenings so
  // that they have the same placement; nothing written by an earlier candidate is left in it.
  [[nodiscard]] absl::StatusOr<std::unique_ptr<RunnerProcess>> StartCandidate(
      const Program& program);
  // Replaces the reference's process by a new one with inputs and outputs in fresh memory, and
  // gives candidates fresh memory. No candidate may be running.
  [[nodiscard]] absl::Status RenewProcesses(const CancelToken& cancel);

  // The outputs of a case, as the candidate or the reference left them.
  enum class Owner { kCandidate, kReference };
  std::span<std::byte> Output(Owner owner, uint32_t case_index, size_t output) const;
  // Brings the inputs and the outputs of a case into the caches of the core that this runs on, the
  // outputs for writing.
  void Touch(Owner owner, uint32_t case_index) const;
  // Whether the bytes around the candidate's outputs of a case are unchanged.
  bool GuardsHold(uint32_t case_index) const;
  // Correctness cases share the memory of their outputs, so guards are set before each.
  void ResetGuards(uint32_t case_index);

  // The programs of a Python task; null for other problems.
  const PythonTaskPrograms* task() const { return task_.get(); }
  PythonProgram TaskReference() const { return task_->Reference(task_calls_); }
  PythonProgram TaskProgram(const Candidate& candidate) const {
    return task_->ProgramFor(candidate, task_calls_);
  }
  std::string OutputName(size_t output, const AxisValues& axes) const {
    return Tensors().OutputName(output, axes);
  }
  // Whether the task's own code decides about outputs.
  bool has_checker() const { return checker_ != nullptr; }
  // Why the task's checker refuses the outputs of a case; nothing if it accepts them.
  [[nodiscard]] absl::StatusOr<std::optional<std::string>> AskChecker(Owner owner,
                                                                      uint32_t case_index,
                                                                      const CancelToken& cancel);
  // Notes on results that follow from its inputs.
  std::vector<MeasurementNote> Notes() const;
  // Time limit for the start of a process.
  int64_t start_limit_ns() const {
    return task_ != nullptr ? kPythonStartLimitNs : options_.load_limit_ns;
  }

  const MeasureOptions& options() const { return options_; }
  const Placement& placement() const { return placement_; }
  int candidates_served = 0;

 private:
  PreparedProblem(const Problem& problem, Program reference, const Setting& setting)
      : problem_(problem),
        reference_program_(std::move(reference)),
        options_(setting.options),
        runner_options_(setting.runner),
        placement_(setting.placement),
        shapes_random_(setting.key, "held-out shapes"),
        values_random_(setting.key, "input values") {}

  absl::Status PlanCases();
  CallTensors Tensors() const { return {problem_, task_.get()}; }
  // RESOURCE_EXHAUSTED: the planned cases do not fit into this worker's memory.
  absl::Status CheckMemory() const;
  // After PlanCases.
  absl::Status Prepare(const Program& oracle, const CancelToken& cancel);
  // FAILED_PRECONDITION: preparing takes too long.
  absl::Status CheckPace() const;
  absl::Status FillCases();
  absl::Status RunOracle(const Program& oracle, const CancelToken& cancel);
  absl::Status RunReference(const CancelToken& cancel);
  absl::StatusOr<std::vector<std::string>> DrawInputs(const CaseSpec& spec);
  void ClearOutputs();
  std::array<std::span<std::byte>, 2> Guards(uint32_t case_index, size_t output) const;
  void Place(uint32_t case_index, const std::vector<std::string>& inputs);
  absl::StatusOr<std::unique_ptr<RunnerProcess>> StartReady(
      const Program& program, const std::vector<runner::CaseRecord>& table,
      const MemoryFile& outputs, const std::string& who, const CancelToken& cancel) const;

  const Problem problem_;
  Program reference_program_;
  const MeasureOptions options_;
  const RunnerOptions runner_options_;
  const Placement placement_;
  const int64_t started_ns_ = Clock::Real().MonotonicNs();
  // Candidates see both sizes and values. Separate streams keep one from revealing the other, and
  // every tensor's values have their own seed so that no tensor reveals another.
  SecretRandom shapes_random_;
  SecretRandom values_random_;

  std::vector<CheckCase> check_cases_;
  std::vector<BenchShape> bench_shapes_;
  std::vector<runner::CaseRecord> table_;
  std::vector<runner::CaseRecord> oracle_table_;           // float outputs are float64
  std::vector<std::vector<TensorLayout>> input_layouts_;   // by case
  std::vector<std::vector<TensorLayout>> output_layouts_;  // by case
  int64_t inputs_bytes_ = 0;
  int64_t outputs_bytes_ = 0;
  int64_t oracle_outputs_bytes_ = 0;
  MemoryFile inputs_;
  MemoryFile candidate_outputs_;
  MemoryFile reference_outputs_;
  std::unique_ptr<RunnerProcess> reference_;
  // Python tasks only.
  std::unique_ptr<const PythonTaskPrograms> task_;
  std::vector<size_t> task_calls_;  // the task's case of each entry of the case table
  std::unique_ptr<PythonInputs> task_inputs_;
  int64_t draw_flags_ = 0;  // of the bench shapes
  std::unique_ptr<PythonChecker> checker_;
  std::vector<std::string> missing_protections_;
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CPU_PREPARED_PROBLEM_H_
