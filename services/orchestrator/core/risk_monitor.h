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
  // Of the candidates that a threshold prunes, at most this share may have been winners,
  double alpha = 0.05;
  // and at most with this probability is a threshold ever certified for which more were.
  double delta = 0.05;
  friend bool operator==(const RiskOptions&, const RiskOptions&) = default;
};

// How often winners were pruned, from what was measured all the same.
struct SelectiveRisk {
  double estimate = 0;  // Horvitz-Thompson over what was, or would have been, pruned
  double low = 0;       // a 95% interval, empirical Bernstein
  double high = 1;
  uint64_t pruned = 0;  // candidates that it is about
  uint64_t labels = 0;  // of them measured
};

// What a RiskMonitor says at one moment.
struct RiskReport {
  RiskOptions options;
  SelectiveRisk selective_risk;
  double threshold = 0;
  bool informative = false;
  uint64_t alarms = 0;
};

// Which win probability is low enough to prune below it: active, anytime-valid control of the risk
// of pruning winners, after Xu, Karampatziakis and Mineiro (arXiv 2406.10490).
//
// For each threshold of a fixed grid a wealth is bet against the hypothesis that more than `alpha`
// of the candidates below it are winners. A candidate whose outcome is looked at with probability
// q, chosen before, changes it by the factor
//
//   1 + nu (alpha - looked / q * won),  0 <= nu <= 1 / (1 / q - alpha)
//
// which is at most 1 in expectation while the hypothesis holds, however q is chosen. The wealth is
// the mean over several nu. It exceeds (size of the grid) / delta with probability delta at most,
// for all times and all thresholds together: then the threshold is certified. Sixty candidates
// looked at with certainty, and no winner among them, certify 5% for one threshold alone; the grid
// of six asks for 96.
//
// Late in a search winners are so rare that pruning blindly would pass, and lose the last of them.
// So nothing is certified before the forecasts have been seen to tell faster from slower: of pairs
// of candidates in the order of their decisions, both measured as correct, the one forecast to be
// faster must be the faster one more often than half the time. That too is a bet, which forecasts
// that say nothing win with probability delta at most. It is lost again when no more than 70% of
// pairs are in order, or when kSameForecasts candidates in a row are forecast to be equally fast.
//
// Candidates are counted in the order of their decisions: one whose measurement is under way holds
// back those decided later, up to kMaxWaiting of them; then it does not count. A second wealth is
// bet on the risk of what is being pruned being higher than alpha, and never falls below its stake.
// When it has grown a thousandfold the world has changed: everything is forgotten and nothing
// certified. While the risk is at most alpha that happens once in a thousand candidates at most,
// and the less the smaller it is.
//
// A value: copies are independent. Not thread-safe. Bounded.
class RiskMonitor {
 public:
  static constexpr std::array<double, 6> kThresholds = {0.01, 0.02, 0.05, 0.1, 0.2, 0.4};
  // Of an audit; smaller ones weigh as much as this.
  static constexpr double kLeastPropensity = 1e-3;
  static constexpr int kSameForecasts = 8;
  static constexpr size_t kMaxWaiting = 16384;

  enum class Truth {
    kWon,      // it beat what was the incumbent when it was decided on
    kLost,     // it did not, or failed
    kUnknown,  // nothing came of measuring it; it does not count
  };

  explicit RiskMonitor(RiskOptions options = {}) : options_(options) {}

  // A candidate was decided on: `measured` or pruned. `propensity` is the probability with which it
  // was going to be measured, 1 where that was certain, in which case it must be measured.
  void Decide(std::string_view id, double win_probability, double expected_log2_speedup,
              double propensity, bool measured);
  // What became of one that is measured; `log2_speedup` where it was correct. Ids that are not
  // known are ignored.
  void Settle(std::string_view id, Truth truth, std::optional<double> log2_speedup);

  // Candidates whose win probability lies below may be pruned; 0: none may.
  double threshold() const;
  // Whether the forecasts were seen to tell faster from slower.
  bool informative() const { return informative_; }
  SelectiveRisk selective_risk() const;
  // How often the risk was found to have risen above alpha, or the forecasts to say nothing.
  uint64_t alarms() const { return alarms_; }
  const RiskOptions& options() const { return options_; }
  RiskReport Report() const {
    return {options_, selective_risk(), threshold(), informative_, alarms_};
  }

  // Everything that counts, as text.
  std::string Digest() const;

 private:
  struct Waiting {
    std::string id;  // of one that is measured
    double win_probability = 0;
    double expected_log2_speedup = 0;
    double propensity = 1;
    bool measured = false;
    double certified = 0;  // the threshold when it was decided on
    std::optional<Truth> truth;
    std::optional<double> log2_speedup;
  };
  // The shares of the largest nu that are bet, and how much of the wealth begins with each.
  static constexpr std::array<double, 3> kBets = {0.99, 0.7, 0.3};
  static constexpr std::array<double, 3> kStakes = {0.7, 0.2, 0.1};
  using Wealth = std::array<double, kBets.size()>;  // logarithms

  void CountReady();
  void Count(const Waiting& candidate);
  void CountOrder(double forecast, double measured);
  void Alarm();

  RiskOptions options_;
  std::deque<Waiting> waiting_;
  uint64_t counted_ = 0;  // of all that were decided on, those that wait no more
  std::unordered_map<std::string, uint64_t>
      measuring_;  // by id, how many were decided on before it
  std::array<Wealth, kThresholds.size()> wealth_{};
  std::array<bool, kThresholds.size()> certified_{};
  Wealth alarm_{};
  uint64_t alarms_ = 0;
  // Of the forecasts' order.
  Wealth order_{};
  double disorder_ = 0;
  bool informative_ = false;
  std::optional<std::pair<double, double>> unpaired_;  // forecast, measured
  std::optional<double> last_forecast_;
  int same_forecasts_ = 0;
  // Of what was pruned, or audited instead.
  uint64_t pruned_ = 0;
  uint64_t labels_ = 0;
  double weight_sum_ = 0;
  double weight_squares_ = 0;
  double largest_weight_ = 1;
};

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CORE_RISK_MONITOR_H_
