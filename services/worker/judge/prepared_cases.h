#ifndef KERNELCAST_SERVICES_WORKER_JUDGE_PREPARED_CASES_H_
#define KERNELCAST_SERVICES_WORKER_JUDGE_PREPARED_CASES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/base/clock.h"
#include "common/base/secret_random.h"
#include "common/domain/measurement.h"
#include "common/domain/problem.h"
#include "services/worker/core/judgement_budget.h"
#include "services/worker/core/options.h"
#include "services/worker/judge/case_plan.h"
#include "services/worker/python/call_tensors.h"
#include "services/worker/python/task_programs.h"

namespace kernelcast::worker {

// The parts of a prepared problem that are the same on all devices. Each device adds memory, values
// and processes. Not thread-safe.
class PreparedCases {
 public:
  using Bank = CasePlan::Bank;
  using enum CasePlan::Bank;
  using Place = CasePlan::Place;
  using Case = CasePlan::Case;
  using CheckCase = CasePlan::CheckCase;
  using BenchShape = CasePlan::BenchShape;

  const Problem& problem() const { return problem_; }
  const MeasureOptions& options() const { return options_; }
  // Null for problems that are not Python tasks.
  const PythonTaskPrograms* task() const { return task_.get(); }
  const CasePlan& plan() const { return plan_; }
  const std::vector<Case>& cases() const { return plan_.cases; }
  const std::vector<CheckCase>& check_cases() const { return plan_.check_cases; }
  const std::vector<BenchShape>& bench_shapes() const { return plan_.bench_shapes; }

  std::string OutputName(size_t output, const AxisValues& axes) const {
    return Tensors().OutputName(output, axes);
  }
  // Notes on results that follow from its inputs.
  std::vector<MeasurementNote> Notes() const;
  // Once the reference is timed.
  JudgementBudget BudgetOf(MeasureLevel level) const;

  int candidates_served = 0;

 protected:
  PreparedCases(Problem problem, std::string_view target, const MeasureOptions& options,
                const SecretKey& key)
      : problem_(std::move(problem)),
        target_(target),
        options_(options),
        shapes_random_(key, "held-out shapes"),
        values_random_(key, "input values") {}
  ~PreparedCases() = default;

  CallTensors Tensors() const { return {problem_, task_.get()}; }
  // FAILED_PRECONDITION: preparing takes too long.
  absl::Status CheckPace() const;

  const Problem problem_;
  const std::string target_;
  const MeasureOptions options_;
  std::shared_ptr<const PythonTaskPrograms> task_;
  // Candidates see both sizes and values. Separate streams keep one from revealing the other, and
  // every tensor's values have their own seed so that no tensor reveals another.
  SecretRandom shapes_random_;
  SecretRandom values_random_;
  CasePlan plan_;
  int64_t draw_flags_ = 0;  // of a task's bench shapes

 private:
  const int64_t started_ns_ = Clock::Real().MonotonicNs();
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_JUDGE_PREPARED_CASES_H_
