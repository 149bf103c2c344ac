#include "services/worker/judge/case_plan.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "services/worker/python/call_tensors.h"

namespace kernelcast::worker {
namespace {

// Places tensors one after the other, with gaps around each.
void Append(const std::vector<TensorLayout>& layouts, uint64_t alignment, uint64_t gap_bytes,
            std::vector<CasePlan::Place>& places, uint64_t& end) {
  const auto align_up = [&](uint64_t at) { return (at + alignment - 1) / alignment * alignment; };
  for (const TensorLayout& layout : layouts) {
    places.push_back({align_up(end + gap_bytes), static_cast<uint64_t>(layout.bytes())});
    end = align_up(places.back().offset + places.back().bytes) + gap_bytes;
  }
}

}  // namespace

uint64_t CasePlan::Case::bytes() const {
  uint64_t sum = 0;
  for (const std::vector<Place>* const places : {&inputs, &outputs}) {
    for (const Place& place : *places) sum += place.bytes;
  }
  return sum;
}

absl::Status CasePlan::ForEachDraw(
    const std::function<absl::Status(size_t index, Bank bank)>& draw) const {
  for (const CheckCase& check : check_cases) {
    if (!check.shape) KC_RETURN_IF_ERROR(draw(check.index, kBase));
  }
  for (const BenchShape& shape : bench_shapes) {
    for (const size_t index : shape.slots) {
      for (const Bank bank : {kBase, kOther, kAltered}) KC_RETURN_IF_ERROR(draw(index, bank));
    }
  }
  return absl::OkStatus();
}

const CasePlan::CheckCase& CasePlan::LargestCheck() const {
  return *std::ranges::max_element(
      check_cases, {}, [&](const CheckCase& check) { return cases[check.index].bytes(); });
}

absl::StatusOr<CasePlan> PlanCases(const Problem& problem, const PythonTaskPrograms* task,
                                   const MeasureOptions& options, const PlanRules& rules,
                                   SecretRandom& shapes_random) {
  const auto found = problem.targets.find(rules.target);
  if (found == problem.targets.end()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the problem has no reference for target ", std::string(rules.target)));
  }
  const ProblemTarget& target = found->second;
  const CallTensors tensors(problem, task);
  CasePlan plan;
  plan.saves_memory = rules.saves_memory;
  const auto add_case = [&](CaseSpec spec, uint64_t& outputs_end) -> absl::StatusOr<size_t> {
    CasePlan::Case& added = plan.cases.emplace_back();
    added.spec = std::move(spec);
    added.task_case = tensors.TaskCaseOf(added.spec.axes);
    KC_ASSIGN_OR_RETURN(added.input_layouts, tensors.Inputs(added.spec.axes));
    KC_ASSIGN_OR_RETURN(added.output_layouts, tensors.Outputs(added.spec.axes));
    Append(added.input_layouts, rules.alignment, rules.input_gap_bytes, added.inputs,
           plan.inputs_bytes);
    Append(added.output_layouts, rules.alignment, rules.guard_bytes, added.outputs, outputs_end);
    return plan.cases.size() - 1;
  };

  std::vector<CaseSpec> specs = task != nullptr
                                    ? task->CorrectnessCases(rules.task_cases)
                                    : CorrectnessCases(problem, target, options, shapes_random);
  for (CaseSpec& spec : specs) {
    const bool is_bench =
        std::ranges::find(target.bench_shapes, spec.axes) != target.bench_shapes.end();
    if (rules.saves_memory && is_bench) continue;
    uint64_t outputs_end = rules.shares_outputs ? 0 : plan.outputs_bytes;
    KC_ASSIGN_OR_RETURN(const size_t index, add_case(std::move(spec), outputs_end));
    plan.outputs_bytes = std::max(plan.outputs_bytes, outputs_end);
    plan.check_cases.push_back({index});
  }
  for (const AxisValues& axes : target.bench_shapes) {
    CasePlan::BenchShape shape;
    shape.axes = axes;
    KC_ASSIGN_OR_RETURN(shape.bytes, tensors.Bytes(axes));
    KC_ASSIGN_OR_RETURN(shape.flops, tensors.Flops(axes));
    int64_t slots = 1;
    while (std::ssize(shape.slots) < slots) {
      KC_ASSIGN_OR_RETURN(const size_t index, add_case({.axes = axes}, plan.outputs_bytes));
      plan.cases[index].timed = true;
      if (shape.slots.empty()) {
        KC_ASSIGN_OR_RETURN(slots, rules.slots(plan.cases[index]));
      }
      shape.slots.push_back(index);
    }
    if (rules.saves_memory) {
      // A candidate that remembers results is found out on values that no check has shown to it.
      for (const CasePlan::Bank bank : {CasePlan::kBase, CasePlan::kAltered}) {
        plan.check_cases.push_back({shape.slots.front(), bank, plan.bench_shapes.size()});
      }
    }
    plan.bench_shapes.push_back(std::move(shape));
  }
  return plan;
}

}  // namespace kernelcast::worker
