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
#include "common/domain/problem.h"
#include "services/worker/core/cancel.h"
#include "services/worker/core/inputs.h"
#include "services/worker/core/options.h"
#include "services/worker/core/random.h"
#include "services/worker/core/timing_session.h"
#include "services/worker/cuda/judge/device.h"
#include "services/worker/cuda/judge/judge_kernels.h"
#include "services/worker/cuda/judge/runner_client.h"
#include "services/worker/cuda/runner/program_table.h"

namespace kernelcast::worker {

// A program, compiled: a candidate, a reference or an oracle. Device code and its launches, or,
// candidates only, a shared object that launches by itself.
struct CudaProgram {
  std::string cubin;
  std::vector<Launch> launches;
  std::string workspace_bytes;
  std::vector<Tunable> tunables;
  std::string object = {};  // empty: device code

  bool host_launched() const { return !object.empty(); }

  // Names of its kernels, each once, in the order of the launches.
  std::vector<std::string> KernelNames() const;
};

// What an output must hold, on the device, in memory that no runner sees.
struct CudaExpected {
  DataType dtype = DataType::kFloat32;
  Tolerance tolerance;
  int64_t count = 0;
  CUdeviceptr values = 0;  // doubles, or elements of the integer type
  double rms = 0;
  double norm = 0;
  double absolute = 0;  // atol * max(1, rms)
};

// A problem with its inputs drawn, its outputs known and its reference tried, on one device. Inputs
// and outputs live in arenas that runners map: the inputs to read only.
class CudaPreparedProblem {
 public:
  // Arenas, as runners number them.
  enum Arena : uint32_t {
    kInputs = 0,
    kCandidateOutputs = 1,
    kReferenceOutputs = 2,
    kScratch = 3,
    kExpected = 4,  // while the oracle runs, and never while a candidate does
  };
  // Values that the inputs of the bench shapes can have.
  enum Bank : size_t { kBase = 0, kAltered = 1, kOther = 2 };
  static constexpr size_t kBanks = 3;
  static constexpr uint32_t kGuardPattern = 0xa5c35a3c;

  struct Place {
    uint64_t offset = 0;
    uint64_t bytes = 0;
  };
  // One call of the program; its position in cases() is the number of its program.
  struct Case {
    AxisValues axes;
    std::string distribution;
    std::vector<Place> inputs;
    std::vector<Place> outputs;
    int64_t reference_ns = 0;
  };
  struct Set {
    std::vector<DeviceBuffer> inputs;
    std::vector<CudaExpected> expected;
  };
  struct CheckCase {
    size_t index = 0;
    std::vector<CudaExpected> expected;
  };
  struct BenchShape {
    AxisValues axes;
    std::vector<size_t> slots;                  // positions in cases()
    std::vector<std::array<Set, kBanks>> sets;  // by slot
    int64_t reference_ns = 0;
    double bytes = 0;  // declared traffic and work; 0: not declared
    double flops = 0;
  };

  // Draws inputs, runs the oracle over all of them and the reference, both in `runner`, and checks
  // the reference.
  // FAILED_PRECONDITION: oracle or reference is at fault. RESOURCE_EXHAUSTED: too large for the
  // device. UNAVAILABLE: the runner came to harm otherwise.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<CudaPreparedProblem>> Make(
      const Problem& problem, const CudaProgram& oracle, CudaProgram reference,
      const MeasureOptions& options, CudaDevice& device, JudgeKernels& kernels, CudaRunner& runner,
      uint64_t seed, const CancelToken& cancel);

  const Problem& problem() const { return problem_; }
  const ProblemTarget& target() const { return problem_.targets.find(kCudaTargetName)->second; }
  const MeasureOptions& options() const { return options_; }
  const std::vector<Case>& cases() const { return cases_; }
  const std::vector<CheckCase>& check_cases() const { return check_cases_; }
  const std::vector<BenchShape>& bench_shapes() const { return bench_shapes_; }

  // Maps the arenas into a runner that has none mapped, loads the reference and its programs.
  [[nodiscard]] absl::Status Attach(CudaRunner& runner, const CancelToken& cancel);
  // Maps what a shared object works on and nothing else: no result of the reference's is there to
  // be found.
  [[nodiscard]] absl::Status AttachObject(CudaRunner& runner, const CancelToken& cancel);
  [[nodiscard]] absl::Status Detach(CudaRunner& runner, const CancelToken& cancel);

  // The programs of a candidate, one for each of cases(). INVALID_ARGUMENT: a launch has no plan.
  struct Programs {
    std::vector<cuda_runner::Program> programs;
    std::vector<uint64_t> workspace_bytes;  // by case
    uint64_t max_workspace_bytes = 0;
  };
  [[nodiscard]] absl::StatusOr<Programs> MakePrograms(const CudaProgram& program, Side side) const;
  // One call of a program of launches, whose outputs are in these places of an arena.
  struct PlannedProgram {
    cuda_runner::Program program;
    uint64_t workspace_bytes = 0;
  };
  [[nodiscard]] static absl::StatusOr<PlannedProgram> MakeProgram(
      const Problem& problem, const CudaProgram& program, const Case& at, Arena outputs_arena,
      const std::vector<Place>& outputs);
  // One for each of cases(), and one that does nothing.
  const Programs& reference_programs() const { return reference_programs_; }
  // Loads the reference's module anew, with its programs.
  [[nodiscard]] absl::Status LoadReference(CudaRunner& runner, const CancelToken& cancel);
  // Makes the scratch arena as large as asked and maps it into the runner, which then wants all
  // programs anew. RESOURCE_EXHAUSTED: it stays as it was.
  [[nodiscard]] absl::Status ReserveScratch(uint64_t bytes, CudaRunner& runner,
                                            const CancelToken& cancel);

  // Into the device's stream: guards of a case's outputs, wrong words over the outputs or the first
  // bytes of the workspace, values of a bank into the inputs of a shape.
  [[nodiscard]] absl::Status ResetGuards(const Case& at);
  [[nodiscard]] absl::Status FillOutputs(Side side, const Case& at, uint32_t pattern);
  [[nodiscard]] absl::Status FillWorkspace(uint64_t bytes, uint32_t pattern);
  [[nodiscard]] absl::Status PutBank(const BenchShape& shape, Bank bank);
  // Of the content of all inputs; waits for it. A program of device code cannot change them.
  [[nodiscard]] absl::StatusOr<uint64_t> InputsFingerprint();
  // What it is between candidates, with every shape's base bank in place.
  uint64_t base_fingerprint() const { return base_fingerprint_; }

  // What the runner writes over a case's outputs before a timed call.
  void AddPoisons(Side side, size_t index, uint32_t pattern,
                  std::vector<cuda_runner::PoisonRecord>& poisons) const;
  // Over the workspace: all of it, or, where that would take long, a part of kMaxPoisonedBytes at a
  // place that `random` chooses. Returns how much.
  static uint64_t AddWorkspacePoison(uint64_t workspace_bytes, uint32_t pattern, Random& random,
                                     std::vector<cuda_runner::PoisonRecord>& poisons);
  static constexpr uint64_t kMaxPoisonedBytes = uint64_t{64} << 20;

  CUdeviceptr OutputAddress(Side side, const Place& place) const;
  // Of kGuardBytes each, before and after an output.
  std::array<CUdeviceptr, 2> GuardAddresses(const Place& place) const;
  static constexpr int64_t kGuardBytes = 4096;

  // Of one call, given what the reference takes: never less than some times that.
  int64_t CallLimitNs(int64_t reference_ns) const;
  static constexpr int64_t kLeastLimitFactor = 4;

  int candidates_served = 0;

 private:
  CudaPreparedProblem(const Problem& problem, const MeasureOptions& options, CudaDevice& device,
                      JudgeKernels& kernels, uint64_t seed)
      : problem_(problem), options_(options), device_(device), kernels_(kernels), random_(seed) {}

  absl::Status Arrange();
  absl::Status MapArenas(CudaRunner& runner, const CancelToken& cancel);
  // With the scratch memory that it needs.
  absl::Status PlaceReference(CudaRunner& runner, const CancelToken& cancel);
  absl::Status FillInputs(const CancelToken& cancel);
  absl::Status RunOracle(const CudaProgram& oracle, CudaRunner& runner, const CancelToken& cancel);
  // Of right values that the oracle has written: what comparing with them needs.
  absl::Status DescribeExpected(std::vector<CudaExpected>& outputs,
                                const std::vector<Place>& places, const std::string& what);
  absl::Status RunReference(CudaRunner& runner, const CancelToken& cancel);
  // Gives the right values of a case places at `end`, which moves behind them.
  absl::StatusOr<std::vector<CudaExpected>> PlaceExpected(const AxisValues& axes,
                                                          std::vector<Place>& places,
                                                          uint64_t& end) const;
  absl::StatusOr<Programs> MakeCalls() const;

  const Problem problem_;
  const MeasureOptions options_;
  CudaDevice& device_;
  JudgeKernels& kernels_;
  Random random_;
  const uint64_t fingerprint_seed_ = random_.Next();
  CudaProgram reference_;
  Programs reference_programs_;
  uint64_t base_fingerprint_ = 0;
  std::vector<Case> cases_;
  std::vector<CaseSpec> check_specs_;  // by position in check_cases_
  std::vector<CheckCase> check_cases_;
  std::vector<BenchShape> bench_shapes_;
  uint64_t inputs_bytes_ = 0;
  uint64_t outputs_bytes_ = 0;
  SharedArena inputs_;
  SharedArena candidate_outputs_;
  SharedArena reference_outputs_;
  SharedArena scratch_;
  SharedArena expected_;
};

// What comparing a candidate's output with the right one found, as in CompareTensor.
struct CudaVerdict {
  bool ok = true;
  WrongResult::Cause cause = WrongResult::Cause::kValue;
  double normwise_error = 0;
};
CudaVerdict JudgeComparison(const CudaExpected& expected, const TensorComparison& comparison,
                            bool poisoned);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_PREPARED_PROBLEM_H_
