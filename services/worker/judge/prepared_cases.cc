#include "services/worker/judge/prepared_cases.h"

#include "services/worker/core/inputs.h"
#include "services/worker/core/problem_faults.h"

namespace kernelcast::worker {

std::vector<MeasurementNote> PreparedCases::Notes() const {
  return task_ != nullptr ? NotesOf(draw_flags_)
                          : InputNotes(problem_, problem_.targets.at(target_));
}

JudgementBudget PreparedCases::BudgetOf(MeasureLevel level) const {
  std::vector<int64_t> check_ns;
  for (const CheckCase& check : plan_.check_cases) {
    check_ns.push_back(plan_.cases[check.index].reference_ns);
  }
  std::vector<int64_t> bench_ns;
  for (const BenchShape& shape : plan_.bench_shapes) {
    bench_ns.push_back(shape.reference_ns);
  }
  return {options_, level, {check_ns, bench_ns}};
}

absl::Status PreparedCases::CheckPace() const {
  return PreparationPace(options_, Clock::Real().MonotonicNs() - started_ns_);
}

}  // namespace kernelcast::worker
