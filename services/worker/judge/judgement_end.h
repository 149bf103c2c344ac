#ifndef KERNELCAST_SERVICES_WORKER_JUDGE_JUDGEMENT_END_H_
#define KERNELCAST_SERVICES_WORKER_JUDGE_JUDGEMENT_END_H_

#include <cstddef>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "common/domain/measurement.h"
#include "services/worker/core/verdict.h"
#include "services/worker/judge/case_plan.h"

namespace kernelcast::worker {

// The end of a judgement, once there is one. A step returns true to go on, or false when the
// judgement has ended, with an outcome or with a status. Not thread-safe.
class JudgementEnd {
 public:
  explicit JudgementEnd(const CasePlan& plan) : plan_(plan) {}

  // Ends with an outcome. Adds the case that ran, if the outcome has fields for it and names none.
  bool Settle(MeasureOutcome outcome) {
    if (running_) {
      const CaseSpec& spec = plan_.cases[*running_].spec;
      NameCase(spec.axes, spec.distribution(), outcome);
    }
    outcome_ = std::move(outcome);
    return false;
  }
  // Ends with an error.
  bool Fail(absl::Status status) {
    status_ = std::move(status);
    return false;
  }
  bool Must(absl::Status status) { return status.ok() || Fail(std::move(status)); }

  const absl::Status& status() const { return status_; }
  const std::optional<MeasureOutcome>& outcome() const { return outcome_; }
  // Takes the outcome, so that the judgement can go on, or puts one back.
  std::optional<MeasureOutcome> TakeOutcome() { return std::exchange(outcome_, std::nullopt); }
  void PutBackOutcome(MeasureOutcome outcome) { outcome_ = std::move(outcome); }

  // The index of the case that runs or ran last; nullopt before any did.
  void set_running(std::optional<size_t> index) { running_ = index; }

 protected:
  std::optional<MeasureOutcome> outcome_;
  absl::Status status_;

 private:
  const CasePlan& plan_;
  std::optional<size_t> running_;
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_JUDGE_JUDGEMENT_END_H_
