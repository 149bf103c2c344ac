#ifndef KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_PREPARED_PROBLEM_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_PREPARED_PROBLEM_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/secret_random.h"
#include "common/domain/problem.h"
#include "services/worker/core/cancel.h"
#include "services/worker/core/inputs.h"
#include "services/worker/cuda/judge/cuda_case_plan.h"
#include "services/worker/cuda/judge/cuda_program.h"
#include "services/worker/cuda/judge/device.h"
#include "services/worker/cuda/judge/expected_output.h"
#include "services/worker/cuda/judge/judge_kernels.h"
#include "services/worker/cuda/judge/memory_fingerprint.h"
#include "services/worker/cuda/judge/problem_memory.h"
#include "services/worker/cuda/judge/python_task.h"
#include "services/worker/cuda/judge/runner_client.h"
#include "services/worker/cuda/runner/program_table.h"
#include "services/worker/judge/prepared_cases.h"
#include "services/worker/python/task_programs.h"

namespace kernelcast::worker {

// A problem on one device, with its inputs drawn, its outputs known and its reference checked.
// Inputs and outputs are in arenas that runners map, inputs read-only.
class CudaPreparedProblem : public PreparedCases {
 public:
  using Arena = CudaCasePlan::Arena;
  using enum CudaCasePlan::Arena;

  // How the problem is judged, on which device, and the key of its values.
  struct Setting {
    const MeasureOptions& options;
    CudaDevice& device;
    JudgeKernels& kernels;
    SecretKey key;
  };

  // Draws inputs on the device, runs the oracle and the reference on all of them in `runner`, and
  // checks the reference. FAILED_PRECONDITION: oracle or reference is at fault, or the problem
  // needs more memory than the device has. RESOURCE_EXHAUSTED: it needs more than is free. Both are
  // found before any memory is taken. UNAVAILABLE: the runner failed otherwise.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<CudaPreparedProblem>> Make(
      const Problem& problem, const CudaProgram& oracle, CudaProgram reference,
      const Setting& setting, CudaRunner& runner, const CancelToken& cancel);

  // The same for a Python task: its own code makes the inputs, and its reference is the oracle too,
  // in another process. `runner` gets the reference; `python` starts the others.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<CudaPreparedProblem>> MakeTask(
      std::shared_ptr<const PythonTaskPrograms> task, const Setting& setting,
      const CudaRunnerOptions& python, CudaRunner& runner, const CancelToken& cancel);

  // Device memory in use, including everything allocated so far.
  uint64_t bytes() const;

  // Whether the task's own code decides about outputs.
  bool has_checker() const { return checker_ != nullptr; }
  // Why the task's checker refuses the outputs of a case; nothing if it accepts them.
  [[nodiscard]] absl::StatusOr<std::optional<std::string>> AskChecker(Arena outputs, size_t index,
                                                                      const CancelToken& cancel);
  // What the outputs of a case must be for the values of a bank.
  const std::vector<CudaExpected>& expected(size_t index, Bank bank) const {
    return sets_[index][bank].expected;
  }
  const std::vector<CudaExpected>& expected(const CheckCase& check) const {
    return expected(check.index, check.bank);
  }
  // Whether the device has little memory for anything else.
  bool saves_memory() const { return plan_.saves_memory; }
  // Where the time of Make went.
  struct Times {
    int64_t arrange_ns = 0;
    int64_t inputs_ns = 0;
    int64_t oracle_ns = 0;
    int64_t reference_ns = 0;
  };
  const Times& times() const { return times_; }

  // Where inputs, outputs and the workspace are.
  ProblemMemory& memory() { return memory_; }
  const ProblemMemory& memory() const { return memory_; }

  // Maps the arenas into a runner that has none mapped, and loads the reference and its programs.
  [[nodiscard]] absl::Status Attach(CudaRunner& runner, const CancelToken& cancel);
  // Maps only the memory that a shared object works on, so that it cannot find results of the
  // reference.
  [[nodiscard]] absl::Status AttachObject(CudaRunner& runner, const CancelToken& cancel);
  // The same for device code of a Python task, whose reference is in another process. Reads the
  // reference's weights first, once, in a process that `python` starts.
  [[nodiscard]] absl::Status AttachDeviceCode(CudaRunner& runner, const CudaRunnerOptions& python,
                                              const CancelToken& cancel);
  [[nodiscard]] absl::Status Detach(CudaRunner& runner, const CancelToken& cancel);

  // The programs of a candidate, one per case. INVALID_ARGUMENT: a launch has no plan.
  struct Programs {
    std::vector<cuda_runner::Program> programs;
    std::vector<uint64_t> workspace_bytes;  // by case
    uint64_t max_workspace_bytes = 0;
  };
  [[nodiscard]] absl::StatusOr<Programs> MakePrograms(const CudaProgram& program,
                                                      Arena outputs) const;
  // One per case, and one that does nothing.
  const Programs& reference_programs() const { return reference_programs_; }
  // Reloads the reference's module with its programs, which write to `outputs`. With kOutputs,
  // overwrites what the reference has left in kReferenceOutputs.
  [[nodiscard]] absl::Status LoadReference(CudaRunner& runner, Arena outputs,
                                           const CancelToken& cancel);
  // Enqueues copies of the values of a bank to the inputs of a shape on the device's stream.
  [[nodiscard]] absl::Status PutBank(const BenchShape& shape, Bank bank);
  // The same for a correctness case that has no place of its own, and the base bank again.
  [[nodiscard]] absl::Status PutValues(const CheckCase& check);
  [[nodiscard]] absl::Status PutBackValues(const CheckCase& check);
  // Hash of all inputs. Waits for the result. Device code cannot change inputs.
  [[nodiscard]] absl::StatusOr<uint64_t> InputsFingerprint();
  // The fingerprint of a case's outputs, with up to 7 bytes after each.
  [[nodiscard]] absl::StatusOr<uint64_t> OutputsFingerprint(Arena outputs, const Case& at);
  // The fingerprint between candidates, with every shape's base bank in place.
  uint64_t base_fingerprint() const { return base_fingerprint_; }

  // Adds what the runner writes over a case's outputs before a timed call.
  void AddPoisons(Arena outputs, size_t index, uint32_t pattern,
                  std::vector<cuda_runner::PoisonRecord>& poisons) const;
  // Adds poison for the workspace: all of it, or kMaxPoisonedBytes at a place chosen by `random` if
  // all of it would take too long. Returns the number of bytes.
  static uint64_t AddWorkspacePoison(uint64_t workspace_bytes, uint32_t pattern,
                                     SecretRandom& random,
                                     std::vector<cuda_runner::PoisonRecord>& poisons);
  static constexpr uint64_t kMaxPoisonedBytes = uint64_t{64} << 20;

 private:
  CudaPreparedProblem(const Problem& problem, const Setting& setting)
      : PreparedCases(problem, kCudaTargetName, setting.options, setting.key),
        device_(setting.device),
        kernels_(setting.kernels),
        memory_(setting.device, setting.key),
        fingerprint_(setting.device, setting.kernels,
                     SecretRandom(setting.key, "fingerprint").Next()) {}

  absl::Status Arrange();
  absl::Status MapArenas(CudaRunner& runner, const CancelToken& cancel);
  // Loads the reference's programs with the scratch memory that they need.
  absl::Status PlaceReference(CudaRunner& runner, const CancelToken& cancel);
  // Assigns places in banks_ to the values of the bench inputs.
  absl::Status ArrangeBanks();
  // Plans the programs of the reference.
  absl::Status PlanReference();
  // `drawn` makes the inputs of a task; null for other problems.
  absl::Status FillInputs(CudaTaskInputs* drawn, const CancelToken& cancel);
  // Draws one input of a call by a kernel, or on the host if no kernel supports the distribution.
  absl::Status DrawInput(size_t input, const CaseSpec& spec, uint64_t seed, CUdeviceptr to);
  struct Set {
    // By input: where its values are stored; empty for values in the arena. For kAltered, if it is
    // no draw of its own: the seed of the changes to kBase.
    std::vector<CUdeviceptr> inputs;
    std::vector<uint64_t> seeds;
    std::vector<CudaExpected> expected;
  };
  absl::Status RunOracle(const CudaProgram& oracle, CudaRunner& runner, const CancelToken& cancel);
  // One call of the oracle, and where its results go.
  struct OracleCall {
    const Case* at;
    std::vector<CudaExpected>* expected;
    std::vector<Place> places;
  };
  // Computes the statistics of the oracle's outputs that comparisons need.
  absl::Status DescribeExpected(std::span<const OracleCall> calls);
  static std::string OracleText(const OracleCall& call);
  absl::Status RunReference(CudaRunner& runner, const CancelToken& cancel);
  // Status for a call of the oracle or the reference. `what` names it.
  absl::Status CallStatus(const CudaRunner& runner, const CudaRunner::Answer& answer,
                          const std::string& what, const CancelToken& cancel) const;
  // Places the expected values of a case at `end` and advances it.
  absl::StatusOr<std::vector<CudaExpected>> PlaceExpected(const Case& at,
                                                          std::vector<Place>& places,
                                                          uint64_t& end) const;
  absl::Status PlaceWeights(const CudaRunnerOptions& python, const CancelToken& cancel);
  // Calls of host code, by case.
  absl::StatusOr<Programs> MakeCalls(Arena outputs) const;

  CudaDevice& device_;
  JudgeKernels& kernels_;
  CudaProgram reference_;
  Programs reference_programs_;        // on kOutputs
  Programs reference_programs_apart_;  // on kReferenceOutputs
  bool reference_outputs_hold_results_ = false;
  uint64_t base_fingerprint_ = 0;
  bool draws_altered_ = false;                           // see CudaCasePlan
  std::vector<std::array<Set, CasePlan::kBanks>> sets_;  // by case
  Times times_;
  ProblemMemory memory_;
  DeviceBuffer banks_;
  MemoryFingerprint fingerprint_;
  SharedArena expected_;
  std::unique_ptr<CudaTaskChecker> checker_;
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_PREPARED_PROBLEM_H_
