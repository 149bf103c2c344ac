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

// E[max(0, log2 S - log2 best)] times the probability of being correct. log2 S is normally
// distributed with the forecast's moments.
double ExpectedImprovement(const Forecast& forecast, double best_speedup);

// The same per device time, relative to the device time of a candidate as fast as the reference.
// Both are called equally often.
double ExpectedImprovementPerCost(const Forecast& forecast, double best_speedup);

// The past decisions of one search, as far as later decisions use them. A value type. Not
// thread-safe. Bounded.
class RouteHistory {
 public:
  static constexpr size_t kWindow = 64;

  explicit RouteHistory(RiskOptions options = {}) : risk_(options) {}

  // `forecast` is the one that was decided on, or null.
  void Decide(std::string_view request_id, const Decision& decision, const Forecast* forecast);
  // `speedup` is that of a correct candidate, 0 for a failed one, negative if there is no verdict.
  // `decision` is that of the same request.
  void Settle(std::string_view request_id, const Decision& decision, double speedup,
              double win_margin);

  // Share of the last kWindow candidates with a forecast that had a higher win probability, or a
  // higher expected improvement per cost, at the time of their decision. 0 if there are none.
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
