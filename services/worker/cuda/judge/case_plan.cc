#include "services/worker/cuda/judge/case_plan.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "services/worker/core/tensor.h"
#include "services/worker/cuda/runner/program_table.h"
#include "services/worker/python/call_tensors.h"

namespace kernelcast::worker {

double CasePlan::MemoryBytes(const Problem& problem) const {
  double bytes = 0;
  const auto add = [&](const Case& at, double inputs, double expected) {
    for (const Place& input : at.inputs) {
      bytes += inputs * static_cast<double>(input.bytes);
    }
    // The outputs of both sides, and the expected ones.
    for (const Place& output : at.outputs) bytes += 2 * static_cast<double>(output.bytes);
    bytes += expected * static_cast<double>(at.expected_bytes);
  };
  for (const CheckCase& check : check_cases) {
    if (!check.values) add(cases[check.index], 1, 1);
  }
  for (const BenchShape& shape : bench_shapes) {
    for (const size_t slot : shape.slots) {
      add(cases[slot], draws_altered ? 4 : 3, kBanks);
    }
  }
  if (!problem.task) return bytes;
  uint64_t most = 0;
  for (const Case& at : cases) most = std::max(most, at.bytes());
  return bytes + 2 * static_cast<double>(most);
}

uint64_t CasePlan::Case::bytes() const {
  uint64_t sum = 0;
  for (const std::vector<Place>* const places : {&inputs, &outputs}) {
    for (const Place& place : *places) sum += place.bytes;
  }
  return sum;
}

namespace {

absl::StatusOr<CasePlan> Plan(const Problem& problem, const PythonTaskPrograms* task,
                              const MeasureOptions& options, SecretRandom& shapes_random,
                              bool saves_memory, bool draws_altered) {
  const ProblemTarget& target = problem.targets.find(kCudaTargetName)->second;
  const CallTensors tensors(problem, task);
  CasePlan plan;
  plan.saves_memory = saves_memory;
  plan.draws_altered = draws_altered;
  const auto add_case = [&](const AxisValues& axes, std::string distribution,
                            uint64_t& outputs_end) -> absl::StatusOr<size_t> {
    CasePlan::Case added;
    added.axes = axes;
    added.distribution = std::move(distribution);
    added.task_case = tensors.TaskCaseOf(axes);
    KC_ASSIGN_OR_RETURN(const auto inputs, tensors.Inputs(axes));
    for (const TensorLayout& layout : inputs) {
      added.inputs.push_back({plan.inputs_bytes, static_cast<uint64_t>(layout.bytes())});
      plan.inputs_bytes = AlignTensor(plan.inputs_bytes + static_cast<uint64_t>(layout.bytes()));
    }
    KC_ASSIGN_OR_RETURN(const auto outputs, tensors.Outputs(axes));
    for (const TensorLayout& layout : outputs) {
      outputs_end += CasePlan::kGuardBytes;
      added.outputs.push_back({outputs_end, static_cast<uint64_t>(layout.bytes())});
      outputs_end =
          AlignTensor(outputs_end + static_cast<uint64_t>(layout.bytes())) + CasePlan::kGuardBytes;
      added.expected_bytes += static_cast<uint64_t>(
          layout.elements() * SizeBytes(KeptType(layout.dtype, task != nullptr)));
    }
    plan.cases.push_back(std::move(added));
    return plan.cases.size() - 1;
  };

  std::vector<CaseSpec> specs = task != nullptr
                                    ? task->CorrectnessCases(options.min_seeds)
                                    : CorrectnessCases(problem, target, options, shapes_random);
  for (CaseSpec& spec : specs) {
    const bool is_bench =
        std::ranges::find(target.bench_shapes, spec.axes) != target.bench_shapes.end();
    if (saves_memory && is_bench) continue;
    CasePlan::CheckCase check;
    KC_ASSIGN_OR_RETURN(check.index, add_case(spec.axes, spec.distribution(), plan.outputs_bytes));
    plan.cases[check.index].adversarial = spec.adversarial.has_value();
    plan.check_cases.push_back(std::move(check));
    plan.check_specs.push_back(std::move(spec));
  }
  for (const AxisValues& axes : target.bench_shapes) {
    CasePlan::BenchShape shape;
    shape.axes = axes;
    KC_ASSIGN_OR_RETURN(shape.bytes, tensors.Bytes(axes));
    KC_ASSIGN_OR_RETURN(shape.flops, tensors.Flops(axes));
    // Memory per set: inputs of the banks in addition to the arena's, and expected outputs of all
    // banks.
    int64_t set_bytes = 0;
    KC_ASSIGN_OR_RETURN(const auto inputs, tensors.Inputs(axes));
    for (const TensorLayout& layout : inputs) {
      set_bytes += (draws_altered ? 4 : 3) * layout.bytes();
    }
    KC_ASSIGN_OR_RETURN(const auto outputs, tensors.Outputs(axes));
    for (const TensorLayout& layout : outputs) {
      const int64_t expected =
          layout.elements() * SizeBytes(KeptType(layout.dtype, task != nullptr));
      set_bytes += 2 * layout.bytes() + static_cast<int64_t>(CasePlan::kBanks) * expected;
    }
    const int64_t affordable = options.input_sets_bytes / std::max<int64_t>(1, set_bytes) /
                               std::ssize(target.bench_shapes);
    // One request times all sets and one empty call.
    const int64_t poisons_a_set = 2 * std::ssize(outputs) + 1;
    const int64_t most = std::min<int64_t>({options.input_sets, cuda_runner::kMaxSamples - 1,
                                            int64_t{cuda_runner::kMaxPoisons} / poisons_a_set});
    if (most < 1) {
      return absl::FailedPreconditionError(
          absl::StrCat("the problem has ", outputs.size(), " outputs, too many for a runner"));
    }
    const int64_t sets = saves_memory ? 1 : std::clamp<int64_t>(affordable, 1, most);
    for (int64_t i = 0; i < sets; ++i) {
      KC_ASSIGN_OR_RETURN(const size_t index, add_case(axes, "declared", plan.outputs_bytes));
      shape.slots.push_back(index);
    }
    shape.sets.resize(static_cast<size_t>(sets));
    if (saves_memory) {
      // A candidate that remembers results is found out on values that no check has shown to it.
      for (const CasePlan::Bank bank : {CasePlan::kBase, CasePlan::kAltered}) {
        plan.check_cases.push_back(
            {shape.slots.front(), {}, CasePlan::BankOfShape{plan.bench_shapes.size(), bank}});
      }
    }
    plan.bench_shapes.push_back(std::move(shape));
  }
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

absl::StatusOr<CasePlan> PlanCases(const Problem& problem, const PythonTaskPrograms* task,
                                   const MeasureOptions& options, uint64_t device_bytes,
                                   SecretRandom& shapes_random) {
  const auto make = [&](bool saves_memory, bool draws_altered) {
    return Plan(problem, task, options, shapes_random, saves_memory, draws_altered);
  };
  const auto most_bytes = static_cast<double>(device_bytes);
  const bool draws_altered = !CanAlter(problem);
  KC_ASSIGN_OR_RETURN(CasePlan plan, make(false, draws_altered));
  if (task == nullptr || plan.MemoryBytes(problem) <= most_bytes / 2) return plan;
  KC_ASSIGN_OR_RETURN(plan, make(true, draws_altered));
  return plan.MemoryBytes(problem) <= most_bytes ? plan : make(true, false);
}

}  // namespace kernelcast::worker
