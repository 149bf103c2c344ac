#include "services/worker/cuda/judge/cuda_case_plan.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "services/worker/core/inputs.h"
#include "services/worker/cuda/judge/device.h"
#include "services/worker/cuda/judge/expected_output.h"
#include "services/worker/cuda/runner/program_table.h"

namespace kernelcast::worker {
namespace {

// Memory of a case with this many copies of each input and expected output, and the outputs of both
// sides.
double CaseBytes(const CasePlan::Case& at, bool python_task, size_t inputs, size_t expected) {
  double bytes = 0;
  for (const CasePlan::Place& input : at.inputs) {
    bytes += static_cast<double>(inputs) * static_cast<double>(input.bytes);
  }
  for (const TensorLayout& output : at.output_layouts) {
    const auto kept = SizeBytes(KeptType(output.dtype, python_task));
    bytes += 2 * static_cast<double>(output.bytes()) +
             static_cast<double>(expected) * static_cast<double>(output.elements() * kept);
  }
  return bytes;
}

// Inputs of the banks in addition to the arena's, and expected outputs of all banks.
double SlotBytes(const CasePlan::Case& at, bool python_task, bool draws_altered) {
  return CaseBytes(at, python_task, draws_altered ? 4 : 3, CasePlan::kBanks);
}

absl::StatusOr<CudaCasePlan> Plan(const Problem& problem, const PythonTaskPrograms* task,
                                  const MeasureOptions& options, SecretRandom& shapes_random,
                                  bool saves_memory, bool draws_altered) {
  const auto shapes = std::ssize(problem.targets.find(kCudaTargetName)->second.bench_shapes);
  const PlanRules rules{
      .target = kCudaTargetName,
      .alignment = kTensorAlignment,
      .guard_bytes = CudaCasePlan::kGuardBytes,
      .saves_memory = saves_memory,
      .task_cases = options.min_seeds,
      .slots = [&](const CasePlan::Case& at) -> absl::StatusOr<int64_t> {
        // One request times all sets and one empty call.
        const int64_t poisons_a_set = 2 * std::ssize(at.outputs) + 1;
        const int64_t most = std::min<int64_t>({options.input_sets, cuda_runner::kMaxSamples - 1,
                                                int64_t{cuda_runner::kMaxPoisons} / poisons_a_set});
        if (most < 1) {
          return absl::FailedPreconditionError(absl::StrCat("the problem has ", at.outputs.size(),
                                                            " outputs, too many for a runner"));
        }
        const double set_bytes = std::max(1.0, SlotBytes(at, task != nullptr, draws_altered));
        const auto affordable = static_cast<int64_t>(static_cast<double>(options.input_sets_bytes) /
                                                     set_bytes / static_cast<double>(shapes));
        return saves_memory ? 1 : std::clamp<int64_t>(affordable, 1, most);
      }};
  CudaCasePlan plan;
  KC_ASSIGN_OR_RETURN(static_cast<CasePlan&>(plan),
                      PlanCases(problem, task, options, rules, shapes_random));
  plan.draws_altered = draws_altered;
  // One extra program does nothing, to measure the overhead of a call.
  if (plan.cases.size() >= cuda_runner::kMaxPrograms ||
      plan.check_cases.size() > cuda_runner::kMaxRuns) {
    return absl::FailedPreconditionError(
        absl::StrCat("the problem has ", plan.cases.size(), " cases, of ", plan.check_cases.size(),
                     " that are checked; a runner takes ", cuda_runner::kMaxPrograms - 1, ", of ",
                     cuda_runner::kMaxRuns));
  }
  return plan;
}

}  // namespace

double CudaCasePlan::MemoryBytes(const Problem& problem) const {
  const bool python_task = problem.task.has_value();
  double bytes = 0;
  for (const CheckCase& check : check_cases) {
    if (!check.shape) bytes += CaseBytes(cases[check.index], python_task, 1, 1);
  }
  for (const BenchShape& shape : bench_shapes) {
    for (const size_t slot : shape.slots) {
      bytes += SlotBytes(cases[slot], python_task, draws_altered);
    }
  }
  if (!python_task) return bytes;
  uint64_t most = 0;
  for (const Case& at : cases) most = std::max(most, at.bytes());
  return bytes + 2 * static_cast<double>(most);
}

absl::StatusOr<CudaCasePlan> PlanCudaCases(const Problem& problem, const PythonTaskPrograms* task,
                                           const MeasureOptions& options, uint64_t device_bytes,
                                           SecretRandom& shapes_random) {
  const auto make = [&](bool saves_memory, bool draws_altered) {
    return Plan(problem, task, options, shapes_random, saves_memory, draws_altered);
  };
  const auto most_bytes = static_cast<double>(device_bytes);
  const bool draws_altered = !CanAlter(problem);
  KC_ASSIGN_OR_RETURN(CudaCasePlan plan, make(false, draws_altered));
  if (task == nullptr || plan.MemoryBytes(problem) <= most_bytes / 2) return plan;
  KC_ASSIGN_OR_RETURN(plan, make(true, draws_altered));
  return plan.MemoryBytes(problem) <= most_bytes ? plan : make(true, false);
}

}  // namespace kernelcast::worker
