#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_CORE_ROUTE_HISTORY_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_CORE_ROUTE_HISTORY_H_

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>

#include "common/domain/decision.h"
#include "common/domain/forecast.h"
#include "services/orchestrator/core/risk_monitor.h"

namespace kernelcast::orchestrator {

// E[max(0, log2 S - log2 best)] of a forecast, times the probability of being correct, with log2 S
// normally distributed with the forecast's moments.
double ExpectedImprovement(const Forecast& forecast, double best_speedup);

// The same for the device time that it takes, relative to that of a candidate as fast as the
// reference: both are called equally often.
double ExpectedImprovementPerCost(const Forecast& forecast, double best_speedup);

// What the decisions of one search were so far, as far as later ones go by it. A value; not
// thread-safe; bounded.
class RouteHistory {
 public:
  static constexpr size_t kWindow = 64;

  explicit RouteHistory(RiskOptions options = {}) : risk_(options) {}

  // With the forecast that was decided on, or null.
  void Decide(std::string_view request_id, const Decision& decision, const Forecast* forecast);
  // `speedup` of a correct candidate, 0 of a failed one, negative where there is no verdict. The
  // decision is that of the same request.
  void Settle(std::string_view request_id, const Decision& decision, double speedup,
              double win_margin);

  // The share of the last kWindow candidates with a forecast that had a higher win probability, or
  // a higher expected improvement for their cost, when they were decided on. 0 before the first.
  double ShareWithHigherWinProbability(double win_probability) const;
  double ShareWithHigherValue(double improvement_per_cost) const;

  const RiskMonitor& risk() const { return risk_; }
  std::string Digest() const;

 private:
  struct Score {
    double win_probability = 0;
    double improvement_per_cost = 0;
  };

  std::deque<Score> scores_;
  RiskMonitor risk_;
};

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CORE_ROUTE_HISTORY_H_
