#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_CORE_RISK_MONITOR_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_CORE_RISK_MONITOR_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace kernelcast::orchestrator {

struct RiskOptions {
  // Maximum share of winners among the candidates that a threshold prunes.
  double alpha = 0.05;
  // Probability that any threshold is ever certified wrongly.
  double delta = 0.05;
  // The policy prunes by certificates.
  bool certifies = false;
  friend bool operator==(const RiskOptions&, const RiskOptions&) = default;
};

// Estimate of how often winners were pruned, from candidates that were measured anyway.
struct SelectiveRisk {
  // Horvitz-Thompson estimate over candidates that were, or would have been, pruned. Unbiased, and
  // so not clipped at 1.
  double estimate = 0;
  double low = 0;  // 95% interval, empirical Bernstein
  double high = 1;
  uint64_t pruned = 0;  // candidates covered
  uint64_t labels = 0;  // how many of them were measured
};

// State of a RiskMonitor at one moment.
struct RiskReport {
  RiskOptions options;
  SelectiveRisk selective_risk;
  double threshold = 0;
  bool informative = false;
  uint64_t alarms = 0;
};

// Finds a win probability below which pruning is safe: active, anytime-valid control of the risk of
// pruning winners, after Xu, Karampatziakis and Mineiro (arXiv 2406.10490).
//
// For each threshold of a fixed grid, wealth is bet against the hypothesis that more than `alpha`
// of the candidates below it are winners. A candidate whose outcome is observed with probability q,
// chosen beforehand, multiplies the wealth by
//
//   1 + nu (alpha - looked / q * won),  0 <= nu <= 1 / (1 / q - alpha)
//
// The expectation of this factor is at most 1 while the hypothesis holds, for any choice of q. The
// wealth is the mean over several nu. The probability that it ever exceeds (size of the grid) /
// delta, at any time and any threshold, is at most delta. A threshold whose wealth exceeds that is
// certified.
//
// After an alarm (below) all bets restart. The k-th start gets delta / (k (k + 1)), so that the
// total probability of a wrong certificate stays at most delta. The monitor is replayed from the
// log, so a restart of the process is not a new start. At the first start, 115 candidates observed
// with certainty and no winner among them certify 5%.
//
// Late in a search winners are so rare that pruning blindly would pass the test and lose the last
// of them. So nothing is certified until the forecasts have been observed to separate faster from
// slower: of pairs of consecutive candidates measured as correct, the one forecast to be faster
// must be faster more than half the time. This is a bet too; uninformative forecasts ever win it
// with probability at most delta. The state is lost again if no more than 70% of pairs are in
// order, or if kSameForecasts consecutive candidates have the same forecast.
//
// Candidates are counted in the order of their decisions. A candidate whose measurement is running
// holds back later ones, up to kMaxWaiting of them; after that it does not count. A second wealth
// is bet on the risk of the pruned candidates being above alpha, and never falls below its stake.
// When it has grown a thousandfold, that is an alarm: everything is forgotten and nothing is
// certified. While the risk is at most alpha, an alarm happens at most once in a thousand
// candidates, and less often the smaller the risk.
//
// A value type: copies are independent. Not thread-safe. Bounded.
class RiskMonitor {
 public:
  static constexpr std::array<double, 6> kThresholds = {0.01, 0.02, 0.05, 0.1, 0.2, 0.4};
  static constexpr int kSameForecasts = 8;
  static constexpr size_t kMaxWaiting = 16384;

  enum class Truth {
    kWon,      // it beat the incumbent at the time of its decision
    kLost,     // it did not, or it failed
    kUnknown,  // the measurement gave no verdict; it does not count
  };

  explicit RiskMonitor(RiskOptions options = {}) : options_(options) {}

  // A candidate was decided on: `measured` or pruned. `propensity` > 0 is the probability with
  // which it was to be measured; 1 means certain, and then it must be measured. `prunable`: the
  // policy pruned it, or would have without an audit.
  void Decide(std::string_view id, double win_probability, double expected_log2_speedup,
              double propensity, bool measured, bool prunable);
  // The outcome of a measured candidate. `log2_speedup` is set if it was correct. Unknown ids are
  // ignored.
  void Settle(std::string_view id, Truth truth, std::optional<double> log2_speedup);

  // Candidates with a lower win probability may be pruned. 0: none may.
  double threshold() const;
  // Whether the forecasts were observed to separate faster from slower.
  bool informative() const { return informative_; }
  SelectiveRisk selective_risk() const;
  // How often the risk was found to be above alpha, or the forecasts to be uninformative.
  uint64_t alarms() const { return alarms_; }
  const RiskOptions& options() const { return options_; }
  RiskReport Report() const {
    return {options_, selective_risk(), threshold(), informative_, alarms_};
  }

  // The whole state as text.
  std::string Digest() const;

 private:
  struct Waiting {
    std::string id;  // of a measured candidate
    double win_probability = 0;
    double expected_log2_speedup = 0;
    double propensity = 1;
    bool measured = false;
    bool prunable = false;
    double certified = 0;  // the threshold at the time of the decision
    std::optional<Truth> truth;
    std::optional<double> log2_speedup;
  };
  // Fractions of the largest nu that are bet, and the share of the initial wealth on each.
  static constexpr std::array<double, 3> kBets = {0.99, 0.7, 0.3};
  static constexpr std::array<double, 3> kStakes = {0.7, 0.2, 0.1};
  using Wealth = std::array<double, kBets.size()>;  // logarithms

  // The part of delta available since the last alarm.
  double Delta() const;
  void CountReady();
  void Count(const Waiting& candidate);
  void CountOrder(double forecast, double measured);
  void Alarm();

  RiskOptions options_;
  std::deque<Waiting> waiting_;
  uint64_t counted_ = 0;  // decided candidates that no longer wait
  std::unordered_map<std::string, uint64_t>
      measuring_;  // by id, how many were decided on before it
  std::array<Wealth, kThresholds.size()> wealth_{};
  std::array<bool, kThresholds.size()> certified_{};
  Wealth alarm_{};
  uint64_t alarms_ = 0;
  // State of the test of the forecasts' order.
  Wealth order_{};
  double disorder_ = 0;
  bool informative_ = false;
  std::optional<std::pair<double, double>> unpaired_;  // forecast, measured
  std::optional<double> last_forecast_;
  int same_forecasts_ = 0;
  // Candidates that were pruned, or audited instead.
  uint64_t pruned_ = 0;
  uint64_t labels_ = 0;
  // Weighted number of candidates with a possible verdict: an audit without a verdict stands for 1
  // / propensity.
  double knowable_ = 0;
  double weight_sum_ = 0;
  double weight_squares_ = 0;
  double largest_weight_ = 1;
};

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CORE_RISK_MONITOR_H_
