#include "services/orchestrator/core/problem_history.h"

#include "absl/strings/str_cat.h"

namespace kernelcast::orchestrator {

std::vector<AnchorKernel::ShapeTime> MedianTimes(const Measurement& measurement) {
  std::vector<AnchorKernel::ShapeTime> times;
  if (const auto* ok = std::get_if<MeasuredOk>(&measurement.outcome)) {
    for (const ShapeTiming& timing : ok->shapes) {
      times.push_back({timing.shape, timing.candidate.median_ns});
    }
  }
  return times;
}

AnchorKernel MakeAnchor(const Candidate& candidate, const CompileFacts& facts,
                        const Measurement& measurement) {
  const Ratio* const speedup = MeasuredSpeedup(measurement);
  return {candidate, facts, speedup == nullptr ? Ratio() : *speedup, MedianTimes(measurement)};
}

void ProblemHistory::Forecast(std::string_view request_id, std::string_view candidate_id,
                              const kernelcast::Forecast& forecast) {
  undecided_.emplace(request_id);
  routes_.Forecast(candidate_id, forecast);
}

void ProblemHistory::Decide(std::string_view request_id, const Decision& decision,
                            const kernelcast::Forecast* forecast) {
  ++decided_;
  undecided_.erase(std::string(request_id));
  if (decision.kind == DecisionKind::kMeasure) ++measuring_;
  routes_.Decide(request_id, decision, forecast);
}

void ProblemHistory::Settle(std::string_view request_id, const Decision& decision, double speedup,
                            double win_margin) {
  if (decision.kind != DecisionKind::kMeasure) return;
  // Logs from before device models may name the device only after the decision.
  if (measuring_ > 0) --measuring_;
  routes_.Settle(request_id, decision, speedup, win_margin);
}

void ProblemHistory::Measured(const Candidate& candidate, const CompileFacts& facts,
                              const Measurement& measurement) {
  ++measured_;
  const Ratio* const speedup = MeasuredSpeedup(measurement);
  if (speedup == nullptr) return;
  ++correct_;
  if (speedup->value <= incumbent_speedup()) return;
  best_ = std::make_shared<const AnchorKernel>(MakeAnchor(candidate, facts, measurement));
}

PolicyInput ProblemHistory::Input() const {
  PolicyInput input;
  input.incumbent_speedup = incumbent_speedup();
  input.measured = measured_;
  input.measuring = measuring_;
  input.decided = decided_;
  input.history = &routes_;
  return input;
}

std::string ProblemHistory::Digest() const {
  return absl::StrCat("measured ", measured_, " correct ", correct_, " measuring ", measuring_,
                      " decided ", decided_, " best ",
                      best_ != nullptr ? best_->candidate.candidate_id : "-", " ",
                      incumbent_speedup(), " ", routes_.Digest());
}

}  // namespace kernelcast::orchestrator
