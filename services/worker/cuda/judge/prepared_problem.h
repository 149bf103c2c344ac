#ifndef KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_PREPARED_PROBLEM_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_PREPARED_PROBLEM_H_

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/secret_random.h"
#include "common/domain/problem.h"
#include "services/worker/core/cancel.h"
#include "services/worker/core/inputs.h"
#include "services/worker/core/options.h"
#include "services/worker/core/timing_session.h"
#include "services/worker/cuda/judge/device.h"
#include "services/worker/cuda/judge/judge_kernels.h"
#include "services/worker/cuda/judge/python_task.h"
#include "services/worker/cuda/judge/runner_client.h"
#include "services/worker/cuda/runner/program_table.h"
#include "services/worker/python/task_programs.h"

namespace kernelcast::worker {

// A compiled program: a candidate, a reference or an oracle. Either device code with its launches,
// or host code that launches by itself: a shared object, for candidates only, or a Python program.
struct CudaProgram {
  std::string cubin;
  std::vector<Launch> launches;
  std::string workspace_bytes;
  std::vector<Tunable> tunables;
  std::string object = {};  // empty: device code

  bool host_launched() const { return !object.empty(); }

  // Names of its kernels without duplicates, in the order of the launches.
  std::vector<std::string> KernelNames() const;
};

// Expected value of an output, in device memory that no runner can access.
struct CudaExpected {
  DataType dtype = DataType::kFloat32;
  Tolerance tolerance;
  int64_t count = 0;
  CUdeviceptr values = 0;  // doubles, or elements of the integer type
  double rms = 0;
  double norm = 0;
  double absolute = 0;  // atol * max(1, rms)
};

// A problem on one device, with its inputs drawn, its outputs known and its reference checked.
// Inputs and outputs are in arenas that runners map, inputs read-only. The placement of arenas
// changes a kernel's time by a percent and more, so Relocate moves them to other memory.
class CudaPreparedProblem {
 public:
  // Arenas, by the numbers that runners use.
  enum Arena : uint32_t {
    kInputs = 0,
    // Shared by both sides in turn, so that ratios do not depend on the placement of each side's
    // outputs.
    kOutputs = 1,
    // For a reference that runs next to a host-launched candidate, whose process must not see its
    // outputs. Holds no results of the reference while device code runs.
    kReferenceOutputs = 2,
    kScratch = 3,
    kExpected = 4,  // while the oracle runs, never while a candidate does
  };
  // Sets of values for the inputs of the bench shapes.
  enum Bank : size_t { kBase = 0, kAltered = 1, kOther = 2 };
  static constexpr size_t kBanks = 3;
  static constexpr uint32_t kGuardPattern = 0xa5c35a3c;

  struct Place {
    uint64_t offset = 0;
    uint64_t bytes = 0;
  };
  // One call of the program. Its index in cases() is the index of its program.
  struct Case {
    AxisValues axes;
    std::string distribution;
    std::vector<Place> inputs;
    std::vector<Place> outputs;
    int64_t reference_ns = 0;
  };
  struct Set {
    // By input: where its values are stored. For kAltered: the seed of the changes to kBase.
    std::vector<CUdeviceptr> inputs;
    std::vector<uint64_t> seeds;
    std::vector<CudaExpected> expected;
  };
  struct CheckCase {
    size_t index = 0;
    std::vector<CudaExpected> expected;
  };
  struct BenchShape {
    AxisValues axes;
    std::vector<size_t> slots;                  // indices into cases()
    std::vector<std::array<Set, kBanks>> sets;  // by slot
    int64_t reference_ns = 0;
    double bytes = 0;  // declared traffic and work; 0: not declared
    double flops = 0;
  };

  // Draws inputs on the device, runs the oracle and the reference on all of them in `runner`, and
  // checks the reference. FAILED_PRECONDITION: oracle or reference is at fault, or the problem
  // needs more memory than the device has. RESOURCE_EXHAUSTED: it needs more than is free. Both are
  // found before any memory is taken. UNAVAILABLE: the runner failed otherwise.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<CudaPreparedProblem>> Make(
      const Problem& problem, const CudaProgram& oracle, CudaProgram reference,
      const MeasureOptions& options, CudaDevice& device, JudgeKernels& kernels, CudaRunner& runner,
      const SecretKey& key, const CancelToken& cancel);

  // The same for a Python task: its own code makes the inputs, and its reference is the oracle too,
  // in another process. `runner` gets the reference; `python` starts the others.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<CudaPreparedProblem>> MakeTask(
      std::shared_ptr<const PythonTaskPrograms> task, const MeasureOptions& options,
      CudaDevice& device, JudgeKernels& kernels, const CudaRunnerOptions& python,
      CudaRunner& runner, const SecretKey& key, const CancelToken& cancel);

  // Device memory in use, including everything allocated so far.
  uint64_t bytes() const;

  const Problem& problem() const { return problem_; }
  // Null for problems that are not Python tasks.
  const PythonTaskPrograms* task() const { return task_.get(); }
  const ProblemTarget& target() const { return problem_.targets.find(kCudaTargetName)->second; }
  const MeasureOptions& options() const { return options_; }
  const std::vector<Case>& cases() const { return cases_; }
  const std::vector<CheckCase>& check_cases() const { return check_cases_; }
  const std::vector<BenchShape>& bench_shapes() const { return bench_shapes_; }
  // Where the time of Make went.
  struct Times {
    int64_t arrange_ns = 0;
    int64_t inputs_ns = 0;
    int64_t oracle_ns = 0;
    int64_t reference_ns = 0;
  };
  const Times& times() const { return times_; }

  // Maps the arenas into a runner that has none mapped, and loads the reference and its programs.
  [[nodiscard]] absl::Status Attach(CudaRunner& runner, const CancelToken& cancel);
  // Maps only the memory that a shared object works on, so that it cannot find results of the
  // reference.
  [[nodiscard]] absl::Status AttachObject(CudaRunner& runner, const CancelToken& cancel);
  [[nodiscard]] absl::Status Detach(CudaRunner& runner, const CancelToken& cancel);

  // Moves all arenas to other memory, each with a random offset. For a runner that is about to be
  // attached; none may be attached now. An arena stays if the device has no room for a second one.
  [[nodiscard]] absl::Status Relocate();

  // The programs of a candidate, one per case. INVALID_ARGUMENT: a launch has no plan.
  struct Programs {
    std::vector<cuda_runner::Program> programs;
    std::vector<uint64_t> workspace_bytes;  // by case
    uint64_t max_workspace_bytes = 0;
  };
  [[nodiscard]] absl::StatusOr<Programs> MakePrograms(const CudaProgram& program,
                                                      Arena outputs) const;
  // One call of a program of launches with its outputs at `outputs` in `outputs_arena`.
  struct PlannedProgram {
    cuda_runner::Program program;
    uint64_t workspace_bytes = 0;
  };
  [[nodiscard]] static absl::StatusOr<PlannedProgram> MakeProgram(
      const Problem& problem, const CudaProgram& program, const Case& at, Arena outputs_arena,
      const std::vector<Place>& outputs);
  // One per case, and one that does nothing.
  const Programs& reference_programs() const { return reference_programs_; }
  // Reloads the reference's module with its programs, which write to `outputs`. With kOutputs,
  // overwrites what the reference has left in kReferenceOutputs.
  [[nodiscard]] absl::Status LoadReference(CudaRunner& runner, Arena outputs,
                                           const CancelToken& cancel);
  // Grows the scratch arena to the requested size and maps it into the runner, which then needs all
  // its programs again. RESOURCE_EXHAUSTED: the arena is unchanged.
  [[nodiscard]] absl::Status ReserveScratch(uint64_t bytes, CudaRunner& runner,
                                            const CancelToken& cancel);

  // The functions up to PutBank enqueue work on the device's stream. ResetGuards writes the guards
  // of a case's outputs.
  [[nodiscard]] absl::Status ResetGuards(const Case& at);
  // Fills all outputs and the workspace with NaN, so that nothing of a candidate is left for the
  // next.
  [[nodiscard]] absl::Status ClearOutputs();
  // Fills the outputs of a case, or the first bytes of the workspace, with a word.
  [[nodiscard]] absl::Status FillOutputs(Arena outputs, const Case& at, uint32_t pattern);
  [[nodiscard]] absl::Status FillWorkspace(uint64_t bytes, uint32_t pattern);
  // Copies the values of a bank to the inputs of a shape.
  [[nodiscard]] absl::Status PutBank(const BenchShape& shape, Bank bank);
  // Hash of all inputs. Waits for the result. Device code cannot change inputs.
  [[nodiscard]] absl::StatusOr<uint64_t> InputsFingerprint();
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

  CUdeviceptr OutputAddress(Arena outputs, const Place& place) const;
  // Guards of kGuardBytes each, before and after an output in kOutputs.
  std::array<CUdeviceptr, 2> GuardAddresses(const Place& place) const;
  static constexpr int64_t kGuardBytes = 4096;

  // Limit for one call, given the reference's time: at least kLeastLimitFactor times it.
  int64_t CallLimitNs(int64_t reference_ns) const;
  static constexpr int64_t kLeastLimitFactor = 4;

  int candidates_served = 0;

 private:
  CudaPreparedProblem(const Problem& problem, const MeasureOptions& options, CudaDevice& device,
                      JudgeKernels& kernels, const SecretKey& key)
      : problem_(problem),
        options_(options),
        device_(device),
        kernels_(kernels),
        shapes_random_(key, "held-out shapes"),
        values_random_(key, "input values"),
        placement_random_(key, "placement"),
        fingerprint_seed_(SecretRandom(key, "fingerprint").Next()) {}

  absl::Status Arrange();
  // Compares the memory of the arranged cases with the device's.
  absl::Status CheckMemory() const;
  absl::StatusOr<SharedArena> MakeArena(uint64_t bytes);
  absl::Status MapArenas(CudaRunner& runner, const CancelToken& cancel);
  // Loads the reference's programs with the scratch memory that they need.
  absl::Status PlaceReference(CudaRunner& runner, const CancelToken& cancel);
  // Assigns places in banks_ to the values of the bench inputs.
  absl::Status ArrangeBanks();
  // Plans the programs of the reference.
  absl::Status PlanReference();
  absl::Status FillInputs(const CancelToken& cancel);
  absl::Status FillTaskInputs(CudaTaskInputs& drawn, const CancelToken& cancel);
  // Draws one input of a call by a kernel, or on the host if no kernel supports the distribution.
  absl::Status DrawInput(size_t input, const CaseSpec& spec, uint64_t seed, CUdeviceptr to);
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
  // Places the expected values of a case at `end` and advances it.
  absl::StatusOr<std::vector<CudaExpected>> PlaceExpected(const AxisValues& axes,
                                                          std::vector<Place>& places,
                                                          uint64_t& end) const;
  // Calls of host code, by case.
  absl::StatusOr<Programs> MakeCalls(Arena outputs) const;
  // `wide`: floating-point outputs are float64.
  absl::StatusOr<cuda_runner::Program> MakeCall(const Case& at, Arena outputs_arena,
                                                const std::vector<Place>& outputs, bool wide) const;
  absl::Status MapArena(CudaRunner& runner, Arena number, const CancelToken& cancel);

  const Problem problem_;
  std::shared_ptr<const PythonTaskPrograms> task_;
  const MeasureOptions options_;
  CudaDevice& device_;
  JudgeKernels& kernels_;
  // Candidates see sizes, values and addresses. Separate streams keep one from revealing another.
  SecretRandom shapes_random_;
  SecretRandom values_random_;  // seeds; one per tensor
  SecretRandom placement_random_;
  const uint64_t fingerprint_seed_;
  CudaProgram reference_;
  Programs reference_programs_;        // on kOutputs
  Programs reference_programs_apart_;  // on kReferenceOutputs
  bool reference_outputs_hold_results_ = false;
  uint64_t base_fingerprint_ = 0;
  std::vector<Case> cases_;
  std::vector<CaseSpec> check_specs_;  // by index in check_cases_
  std::vector<CheckCase> check_cases_;
  std::vector<BenchShape> bench_shapes_;
  Times times_;
  uint64_t inputs_bytes_ = 0;
  uint64_t outputs_bytes_ = 0;
  uint64_t scratch_bytes_ = 1;
  DeviceBuffer banks_;
  DeviceBuffer fingerprint_;  // one word; empty until it is needed
  SharedArena inputs_;
  SharedArena outputs_;
  SharedArena reference_outputs_;
  SharedArena scratch_;
  SharedArena expected_;
};

// Verdict on a candidate's output; see CompareTensor.
struct CudaVerdict {
  bool ok = true;
  WrongResult::Cause cause = WrongResult::Cause::kValue;
  double normwise_error = 0;
};
CudaVerdict JudgeComparison(const CudaExpected& expected, const TensorComparison& comparison,
                            bool poisoned);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_PREPARED_PROBLEM_H_
