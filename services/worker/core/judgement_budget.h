#ifndef KERNELCAST_SERVICES_WORKER_CORE_JUDGEMENT_BUDGET_H_
#define KERNELCAST_SERVICES_WORKER_CORE_JUDGEMENT_BUDGET_H_

#include <cstdint>
#include <span>

#include "common/domain/measurement.h"
#include "services/worker/core/options.h"

namespace kernelcast::worker {

// The time that the candidate's calls of one judgement may take together. Only they count: not the
// calls of the reference, and not the time for which the judge or its process was stopped between
// calls. Not thread-safe.
class JudgementBudget {
 public:
  // Times of one call of the reference, on each check case and on each bench shape. A reference
  // that is judged as a candidate never exceeds the budget.
  struct Reference {
    std::span<const int64_t> check_ns;
    std::span<const int64_t> bench_ns;
  };
  JudgementBudget(const MeasureOptions& options, MeasureLevel level, const Reference& reference);

  void Spend(int64_t call_ns) { spent_ns_ += call_ns; }
  bool exceeded() const { return spent_ns_ > limit_ns_; }
  int64_t limit_ns() const { return limit_ns_; }
  int64_t left_ns() const { return limit_ns_ - spent_ns_; }
  // The outcome of a candidate that exceeds it.
  Timeout Exceeded() const { return {.limit_ns = limit_ns_, .stage = "judgement"}; }

 private:
  int64_t limit_ns_ = 0;
  int64_t spent_ns_ = 0;
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CORE_JUDGEMENT_BUDGET_H_
