#ifndef KERNELCAST_SERVICES_WORKER_JUDGE_CASE_PLAN_H_
#define KERNELCAST_SERVICES_WORKER_JUDGE_CASE_PLAN_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/secret_random.h"
#include "common/domain/problem.h"
#include "services/worker/core/inputs.h"
#include "services/worker/core/options.h"
#include "services/worker/core/tensor.h"
#include "services/worker/python/task_programs.h"

namespace kernelcast::worker {

// The calls by which a problem's candidates are judged, and where their tensors are in the memory
// of inputs and in that of outputs. Each target keeps the values, by case and bank.
struct CasePlan {
  // Sets of values for the inputs of a case. Candidates see kAltered and kOther for the first time
  // after timing, at the addresses of kBase. kAltered is kBase with a few values replaced by those
  // of kOther, or a draw of its own. Branches are as predictable on it as on kBase, but a kernel
  // that looks up what it has seen has not seen it.
  enum Bank : size_t { kBase = 0, kAltered = 1, kOther = 2 };
  static constexpr size_t kBanks = 3;

  struct Place {
    uint64_t offset = 0;
    uint64_t bytes = 0;
  };
  struct Case {
    CaseSpec spec;
    bool timed = false;    // a slot of a bench shape
    size_t task_case = 0;  // of a Python task
    std::vector<TensorLayout> input_layouts;
    std::vector<TensorLayout> output_layouts;
    std::vector<Place> inputs;
    std::vector<Place> outputs;
    int64_t reference_ns = 0;

    // Size of the inputs and outputs.
    uint64_t bytes() const;
  };
  struct CheckCase {
    size_t index = 0;  // in cases
    Bank bank = kBase;
    // The bench shape in whose first slot it is, with values of that shape, but never kOther. None:
    // it has a place and values of its own.
    std::optional<size_t> shape = std::nullopt;
  };
  struct BenchShape {
    AxisValues axes;
    std::vector<size_t> slots;  // indices in cases; timed calls rotate through them
    int64_t reference_ns = 0;
    double bytes = 0;  // traffic and work of a call; 0: not known
    double flops = 0;
  };

  // Calls `draw` until it fails: once for each correctness case with values of its own, and for
  // each bank of each slot, kAltered last.
  absl::Status ForEachDraw(const std::function<absl::Status(size_t index, Bank bank)>& draw) const;

  // The correctness case by which processes are compared: the first of those with the largest
  // tensors.
  const CheckCase& LargestCheck() const;

  std::vector<Case> cases;
  std::vector<CheckCase> check_cases;  // those with values of their own first
  std::vector<BenchShape> bench_shapes;
  uint64_t inputs_bytes = 0;
  uint64_t outputs_bytes = 0;
  bool saves_memory = false;  // see PlanRules
};

// What differs between the plans of targets.
struct PlanRules {
  std::string_view target;
  uint64_t alignment = 1;        // of tensors
  uint64_t guard_bytes = 0;      // before and after each output; a multiple of the alignment
  uint64_t input_gap_bytes = 0;  // the same for inputs
  // Whether correctness cases share the memory of their outputs, because they run one by one.
  bool shares_outputs = false;
  // Whether correctness cases of bench shapes are in the first slots, to need less memory.
  bool saves_memory = false;
  int task_cases = 0;  // the least number of correctness cases of a task
  // Returns the number of slots of a bench shape, by a case of it.
  std::function<absl::StatusOr<int64_t>(const CasePlan::Case&)> slots;
};

// Chooses the shapes of correctness cases by `shapes_random`, or as a Python task lists them.
// `task` is null for other problems. FAILED_PRECONDITION: the problem is not for the target.
[[nodiscard]] absl::StatusOr<CasePlan> PlanCases(const Problem& problem,
                                                 const PythonTaskPrograms* task,
                                                 const MeasureOptions& options,
                                                 const PlanRules& rules,
                                                 SecretRandom& shapes_random);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_JUDGE_CASE_PLAN_H_
