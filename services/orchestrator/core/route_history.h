#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_CORE_ROUTE_HISTORY_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_CORE_ROUTE_HISTORY_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/domain/decision.h"
#include "common/domain/forecast.h"
#include "services/orchestrator/core/risk_monitor.h"

namespace kernelcast::orchestrator {

// E[max(0, log2 S - log2 best)] times the probability of being correct. log2 S is normally
// distributed with the forecast's moments.
double ExpectedImprovement(const kernelcast::Forecast& forecast, double best_speedup);

// Shares of the candidates that rank higher than one, and that are equal to it.
struct Rank {
  double higher = 0;
  double equal = 0;

  // Probability that the candidate is among the best `share` if chance breaks ties.
  double ChanceAmong(double share) const;
};

// The past decisions of one search, as far as later decisions use them. A value type. Not
// thread-safe. Bounded.
class RouteHistory {
 public:
  static constexpr size_t kWindow = 64;

  explicit RouteHistory(RiskOptions options = {}) : risk_(options) {}

  // A candidate that may be pruned has this forecast, or a new one.
  void Forecast(std::string_view candidate_id, const kernelcast::Forecast& forecast);
  // `forecast` is the one that was decided on, or null.
  void Decide(std::string_view request_id, const Decision& decision,
              const kernelcast::Forecast* forecast);
  // `speedup` is that of a correct candidate, 0 for a failed one, negative if there is no verdict.
  // `decision` is that of the same request.
  void Settle(std::string_view request_id, const Decision& decision, double speedup,
              double win_margin);

  // Rank among the last kWindow candidates with a forecast, by win probability at the time of their
  // decision.
  Rank RankByWinProbability(double win_probability) const;

  // Share of the others among the last kWindow candidates with a forecast that have the same
  // forecast. 0 without others. Forecasts are the same if they rest on the same evidence, or if
  // they differ by less than `margin`: in the speedup, its spread, P(failure) and that of each bin.
  double ShareWithSameForecast(const kernelcast::Forecast& forecast, double margin) const;

  const RiskMonitor& risk() const { return risk_; }
  std::string Digest() const;

 private:
  // The part of a forecast that is compared.
  struct Known {
    std::string candidate_id;
    std::string evidence_id;
    std::optional<uint64_t> labels_seen;
    double expected_log2_speedup = 0;
    double stddev_log2_speedup = 0;
    double failure_probability = 0;
    std::vector<double> bin_probabilities;
  };
  static bool IsSame(const Known& known, const kernelcast::Forecast& forecast, double margin);

  std::deque<double> win_probabilities_;
  std::deque<Known> known_;
  RiskMonitor risk_;
};

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CORE_ROUTE_HISTORY_H_
