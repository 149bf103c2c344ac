#ifndef KERNELCAST_SERVICES_WORKER_CPU_PREPARED_PROBLEM_H_
#define KERNELCAST_SERVICES_WORKER_CPU_PREPARED_PROBLEM_H_

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/domain/problem.h"
#include "common/process/memory_file.h"
#include "services/worker/core/cancel.h"
#include "services/worker/core/inputs.h"
#include "services/worker/core/options.h"
#include "services/worker/core/verification.h"
#include "services/worker/cpu/placement.h"
#include "services/worker/cpu/runner_process.h"
#include "services/worker/native/shared_object.h"

namespace kernelcast::worker {

// Everything about a problem that candidates have in common: secret inputs, what the outputs must
// hold, and a warm process with the reference. Kept for some candidates, then drawn anew.
//
// One memory file holds all inputs, which runners can read only. Each correctness case has its
// place in it. Each bench shape has slots that timed calls rotate through, and two banks of
// contents for them: one is in the slots, the other is what a candidate sees for the first time
// after it was timed, at the same addresses. Expected outputs are in this process only.
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
    uint32_t index = 0;  // in the case table
    std::vector<ExpectedTensor> expected;
    int64_t reference_ns = 0;
  };

  struct BenchShape {
    AxisValues axes;
    std::vector<uint32_t> slots;  // indices in the case table
    std::vector<Set> banks[2];    // by slot
    // Each bank with a few of its values replaced.
    std::vector<Set> altered[2];
    int current_bank = 0;
    int64_t reference_ns = 0;
    int64_t set_bytes = 0;  // of one slot: inputs and outputs
    double bytes = 0;       // declared traffic and work; 0: not declared
    double flops = 0;

    const std::vector<Set>& current() const { return banks[current_bank]; }
    const std::vector<Set>& other() const { return banks[1 - current_bank]; }
    const std::vector<Set>& altered_current() const { return altered[current_bank]; }
  };

  // Draws inputs, runs the oracle and the reference over all of them, and checks the one by the
  // other. FAILED_PRECONDITION: oracle or reference crash, disagree, or the oracle yields NaN.
  // RESOURCE_EXHAUSTED: the tensors do not fit. The token's status when it is stopped.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<PreparedProblem>> Make(
      const Problem& problem, const LoadableObject& oracle, const LoadableObject& reference,
      const MeasureOptions& options, const RunnerOptions& runner, const Placement& placement,
      uint64_t seed, const CancelToken& cancel);

  const Problem& problem() const { return problem_; }
  std::vector<CheckCase>& check_cases() { return check_cases_; }
  std::vector<BenchShape>& bench_shapes() { return bench_shapes_; }
  RunnerProcess& reference() { return *reference_; }
  const std::vector<std::string>& missing_protections() const { return missing_protections_; }

  // What the slots of a bench shape hold besides their current bank.
  enum class NewValues {
    // The current bank but for a few values: as predictable as it to branches, but a kernel that
    // goes by
    // what it has seen has not seen it.
    kAltered,
    kOther,  // the other bank
  };
  // Puts new values into the slots and returns what they call for.
  const std::vector<Set>& Put(const BenchShape& shape, NewValues values);
  // The same kind of values, drawn on the spot, that nobody has seen; nobody knows their outputs.
  [[nodiscard]] absl::Status PutUnseen(const BenchShape& shape, NewValues values);
  // Puts the current bank's inputs back.
  void Restore(const BenchShape& shape);
  // Makes the other bank the current one, for the next candidate.
  void Swap(BenchShape& shape);

  // A runner for a candidate on fresh output memory, or on the memory that all screenings share so
  // that they have the same placement.
  [[nodiscard]] absl::StatusOr<std::unique_ptr<RunnerProcess>> StartCandidate(
      const LoadableObject& object);
  // Ends the reference's process and starts another, on fresh output memory; and gives candidates
  // fresh output memory. No candidate may be running.
  [[nodiscard]] absl::Status RenewProcesses(const CancelToken& cancel);

  // The outputs of a case, as the candidate or the reference left them.
  enum class Owner { kCandidate, kReference };
  std::span<std::byte> Output(Owner owner, uint32_t case_index, size_t output) const;
  // Whether the bytes around the candidate's outputs of a case are as they were.
  bool GuardsHold(uint32_t case_index) const;
  // Correctness cases share a place for their outputs, so guards are set before each.
  void ResetGuards(uint32_t case_index);

  // Limit for one call of a candidate.
  int64_t CallLimitNs(int64_t reference_ns) const;

  const MeasureOptions& options() const { return options_; }
  const Placement& placement() const { return placement_; }
  int candidates_served = 0;

 private:
  PreparedProblem(const Problem& problem, const LoadableObject& reference,
                  const MeasureOptions& options, const RunnerOptions& runner,
                  const Placement& placement, uint64_t seed)
      : problem_(problem),
        reference_object_(reference),
        options_(options),
        runner_options_(runner),
        placement_(placement),
        random_(seed) {}

  absl::Status PlanCases();
  absl::Status FillCases();
  absl::Status RunOracle(const LoadableObject& oracle, const CancelToken& cancel);
  absl::Status RunReference(const CancelToken& cancel);
  absl::StatusOr<std::vector<std::string>> DrawInputs(const CaseSpec& spec);
  std::array<std::span<std::byte>, 2> Guards(uint32_t case_index, size_t output) const;
  void Place(uint32_t case_index, const std::vector<std::string>& inputs);
  absl::StatusOr<std::unique_ptr<RunnerProcess>> StartReady(
      const LoadableObject& object, const std::vector<runner::CaseRecord>& table,
      const MemoryFile& outputs, const std::string& who, const CancelToken& cancel) const;

  const Problem problem_;
  const LoadableObject reference_object_;
  const MeasureOptions options_;
  const RunnerOptions runner_options_;
  const Placement placement_;
  Random random_;

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
  std::vector<std::string> missing_protections_;
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CPU_PREPARED_PROBLEM_H_
