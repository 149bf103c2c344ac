#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_CORE_PROBLEM_HISTORY_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_CORE_PROBLEM_HISTORY_H_

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/domain/anchor.h"
#include "common/domain/candidate.h"
#include "common/domain/decision.h"
#include "common/domain/facts.h"
#include "common/domain/forecast.h"
#include "common/domain/measurement.h"
#include "services/orchestrator/core/policy.h"
#include "services/orchestrator/core/route_history.h"

namespace kernelcast::orchestrator {

// Median time at each bench shape. Empty if the candidate was not correct.
std::vector<AnchorKernel::ShapeTime> MedianTimes(const Measurement& measurement);
// A correct measurement in the form shown to models.
AnchorKernel MakeAnchor(const Candidate& candidate, const CompileFacts& facts,
                        const Measurement& measurement);

// Measurements of a problem on one device model, in searches and outside them, and the routing of
// candidates outside searches. It plays the same part for evaluations outside searches as a
// search's history for those in the search.
//
// A value that is a function of the sequence of calls. Bounded. Not thread-safe.
class ProblemHistory {
 public:
  // A candidate outside searches, which may be pruned, has a forecast, or a new one.
  void Forecast(std::string_view request_id, std::string_view candidate_id,
                const kernelcast::Forecast& forecast);
  // A candidate outside searches was decided on. `forecast` may be null.
  void Decide(std::string_view request_id, const Decision& decision,
              const kernelcast::Forecast* forecast);
  // The candidate was settled. `speedup` as in RouteHistory::Settle.
  void Settle(std::string_view request_id, const Decision& decision, double speedup,
              double win_margin);
  // A verdict on a candidate, in a search or outside. Not called for confirmations and reused
  // measurements.
  void Measured(const Candidate& candidate, const CompileFacts& facts,
                const Measurement& measurement);

  // The fastest correct candidate. Null until one is faster than the reference. Shared with
  // forecasts in progress.
  const std::shared_ptr<const AnchorKernel>& best() const { return best_; }
  // Speedup of best(), at least 1.
  double incumbent_speedup() const { return best_ != nullptr ? best_->speedup.value : 1; }
  // Requests outside searches that have a forecast and no decision.
  const std::set<std::string>& undecided() const { return undecided_; }
  // Candidates outside searches that are decided to be measured and not settled.
  uint64_t measuring() const { return measuring_; }
  // Calls of Measured, and those with a correct candidate.
  uint64_t measured() const { return measured_; }
  uint64_t correct() const { return correct_; }
  // Counts and incumbent for a candidate outside searches.
  PolicyInput Input() const;
  std::string Digest() const;

 private:
  uint64_t measured_ = 0;
  uint64_t correct_ = 0;
  uint64_t measuring_ = 0;
  uint64_t decided_ = 0;
  std::set<std::string> undecided_;
  std::shared_ptr<const AnchorKernel> best_;
  RouteHistory routes_;
};

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CORE_PROBLEM_HISTORY_H_
