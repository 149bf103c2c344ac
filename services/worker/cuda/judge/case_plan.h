#ifndef KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_CASE_PLAN_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_CASE_PLAN_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/secret_random.h"
#include "common/domain/problem.h"
#include "services/worker/core/inputs.h"
#include "services/worker/core/options.h"
#include "services/worker/cuda/judge/expected_output.h"
#include "services/worker/python/task_programs.h"

namespace kernelcast::worker {

// The calls by which a problem's candidates are judged on a device, and where their tensors are in
// the arenas. The values of inputs and expected outputs are filled in later.
struct CasePlan {
  // Arenas, by the numbers that runners use.
  enum Arena : uint32_t {
    kInputs = 0,
    // Shared by both sides in turn, so that ratios do not depend on the placement of each side's
    // outputs.
    kOutputs = 1,
    // For a reference that runs in another process than the candidate, which must not see its
    // outputs. Holds no results of the reference while device code runs in the same process.
    kReferenceOutputs = 2,
    kScratch = 3,
    kExpected = 4,  // while the oracle runs, never while a candidate does
    kWeights = 5,   // of a Python task's reference, for device code
  };
  // Sets of values for the inputs of the bench shapes. kAltered is kBase with a few values replaced
  // by those of kOther, or a draw of its own.
  enum Bank : size_t { kBase = 0, kAltered = 1, kOther = 2 };
  static constexpr size_t kBanks = 3;

  struct Place {
    uint64_t offset = 0;
    uint64_t bytes = 0;
  };
  // One call of the program. Its index in cases() is the index of its program.
  struct Case {
    AxisValues axes;
    std::string distribution;
    bool adversarial = false;
    size_t task_case = 0;  // of a Python task
    std::vector<Place> inputs;
    std::vector<Place> outputs;
    uint64_t expected_bytes = 0;  // of the expected outputs
    int64_t reference_ns = 0;

    // Size of the inputs and outputs.
    uint64_t bytes() const;
  };
  struct Set {
    // By input: where its values are stored. For kAltered, if it is no draw of its own: the seed of
    // the changes to kBase.
    std::vector<CUdeviceptr> inputs;
    std::vector<uint64_t> seeds;
    std::vector<CudaExpected> expected;
  };
  // Values of a bench shape that serve as a correctness case, in the shape's first slot. Never
  // those of kOther.
  struct BankOfShape {
    size_t shape = 0;  // index in bench_shapes
    Bank bank = kBase;
  };
  struct CheckCase {
    size_t index = 0;
    std::vector<CudaExpected> expected;
    // None: the case has a place and values of its own.
    std::optional<BankOfShape> values = std::nullopt;
  };
  struct BenchShape {
    AxisValues axes;
    std::vector<size_t> slots;                  // indices into cases()
    std::vector<std::array<Set, kBanks>> sets;  // by slot
    int64_t reference_ns = 0;
    double bytes = 0;  // traffic and work of a call; 0: not known
    double flops = 0;
  };
  // Bytes before and after each output.
  static constexpr int64_t kGuardBytes = 4096;

  // Device memory that inputs, outputs and expected outputs need, and for a Python task the copies
  // of a call's tensors that the processes of both sides make. In floating point, because the sum
  // of legal sizes may overflow.
  double MemoryBytes(const Problem& problem) const;

  std::vector<Case> cases;
  // The specifications of the check cases with values of their own, which come first in
  // check_cases.
  std::vector<CaseSpec> check_specs;
  std::vector<CheckCase> check_cases;
  // Whether correctness cases of bench shapes use the values of their banks, to need less memory.
  bool saves_memory = false;
  // Whether kAltered is a draw of its own, as for inputs that cannot be altered.
  bool draws_altered = false;
  std::vector<BenchShape> bench_shapes;
  uint64_t inputs_bytes = 0;
  uint64_t outputs_bytes = 0;
};

// Chooses the shapes of correctness cases by `shapes_random`, or as a Python task lists them, and
// the number of input sets by the options. `task` is null for other problems. The plan of a task
// saves memory if it would otherwise need more than half of `device_bytes`, and has no values of
// kAltered if it would then need more than `device_bytes`: those of kBase stand for them.
// FAILED_PRECONDITION: the problem has more calls or outputs than a runner takes.
[[nodiscard]] absl::StatusOr<CasePlan> PlanCases(const Problem& problem,
                                                 const PythonTaskPrograms* task,
                                                 const MeasureOptions& options,
                                                 uint64_t device_bytes,
                                                 SecretRandom& shapes_random);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_CASE_PLAN_H_
