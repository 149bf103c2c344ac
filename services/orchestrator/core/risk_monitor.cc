#include "services/orchestrator/core/risk_monitor.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"

namespace kernelcast::orchestrator {
namespace {

constexpr double kAlarmWealth = 1000;
// Only prevents division by zero; clamping actual propensities would bias the estimate.
constexpr double kLeastPropensity = 1e-12;
// Differences of less than 2% count as equal.
constexpr double kSameLog2Speedup = 0.03;
constexpr double kLeastOrder = 0.7;
constexpr double kDisorderWealth = 100;

// log of the sum of stakes[i] * exp(logs[i])
template <class Logs, class Stakes>
double LogMean(const Logs& logs, const Stakes& stakes) {
  const double largest = *std::max_element(logs.begin(), logs.end());
  double sum = 0;
  for (size_t i = 0; i < logs.size(); ++i) sum += stakes[i] * std::exp(logs[i] - largest);
  return largest + std::log(sum);
}

}  // namespace

void RiskMonitor::Decide(std::string_view id, double win_probability, double expected_log2_speedup,
                         double propensity, bool measured, bool prunable) {
  same_forecasts_ = last_forecast_ == expected_log2_speedup ? same_forecasts_ + 1 : 1;
  last_forecast_ = expected_log2_speedup;
  if (same_forecasts_ >= kSameForecasts && informative_) Alarm();
  Waiting candidate;
  if (measured) candidate.id = std::string(id);
  candidate.win_probability = win_probability;
  candidate.expected_log2_speedup = expected_log2_speedup;
  candidate.propensity = std::clamp(propensity, kLeastPropensity, 1.0);
  candidate.measured = measured;
  candidate.prunable = prunable;
  candidate.certified = threshold();
  if (!measured) candidate.truth = Truth::kUnknown;
  if (measured) measuring_.emplace(candidate.id, counted_ + waiting_.size());
  waiting_.push_back(std::move(candidate));
  if (waiting_.size() > kMaxWaiting && !waiting_.front().truth) {
    waiting_.front().truth = Truth::kUnknown;
  }
  CountReady();
}

void RiskMonitor::Settle(std::string_view id, Truth truth, std::optional<double> log2_speedup) {
  const auto found = measuring_.find(std::string(id));
  if (found == measuring_.end()) return;
  Waiting& candidate = waiting_[found->second - counted_];
  candidate.truth = truth;
  candidate.log2_speedup = log2_speedup;
  CountReady();
}

void RiskMonitor::CountReady() {
  while (!waiting_.empty() && waiting_.front().truth) {
    const Waiting candidate = std::move(waiting_.front());
    waiting_.pop_front();
    ++counted_;
    if (candidate.measured) measuring_.erase(candidate.id);
    Count(candidate);
  }
}

void RiskMonitor::CountOrder(double forecast, double measured) {
  if (!unpaired_) {
    unpaired_ = {forecast, measured};
    return;
  }
  const auto [other_forecast, other_measured] = *std::exchange(unpaired_, std::nullopt);
  if (std::abs(measured - other_measured) < kSameLog2Speedup) return;
  const bool in_order =
      (forecast > other_forecast) == (measured > other_measured) && forecast != other_forecast;
  for (size_t bet = 0; bet < kBets.size(); ++bet) {
    order_[bet] += std::log1p(in_order ? kBets[bet] : -kBets[bet]);
  }
  disorder_ = std::max(0.0, disorder_ + std::log1p(kLeastOrder - (in_order ? 1 : 0)));
  if (!informative_) {
    informative_ = LogMean(order_, kStakes) >= std::log(1 / Delta());
    disorder_ = 0;
  } else if (disorder_ >= std::log(kDisorderWealth)) {
    Alarm();
  }
}

double RiskMonitor::Delta() const {
  const auto k = static_cast<double>(alarms_ + 1);
  return options_.delta / (k * (k + 1));
}

void RiskMonitor::Count(const Waiting& candidate) {
  if (candidate.measured && *candidate.truth == Truth::kUnknown) {
    // The same share of the pruned candidates would have given no verdict.
    if (candidate.prunable) knowable_ -= 1 / candidate.propensity - 1;
    return;
  }
  if (candidate.log2_speedup) {
    CountOrder(candidate.expected_log2_speedup, *candidate.log2_speedup);
  }
  const double q = candidate.propensity;
  const bool won = candidate.measured && *candidate.truth == Truth::kWon;
  const double loss = won ? 1 / q : 0;

  for (size_t k = 0; k < kThresholds.size(); ++k) {
    if (candidate.win_probability >= kThresholds[k]) continue;
    for (size_t bet = 0; bet < kBets.size(); ++bet) {
      const double nu = kBets[bet] / (1 / q - options_.alpha);
      wealth_[k][bet] += std::log1p(nu * (options_.alpha - loss));
    }
    const double needed = static_cast<double>(kThresholds.size()) / Delta();
    certified_[k] = certified_[k] || LogMean(wealth_[k], kStakes) >= std::log(needed);
  }

  if (candidate.prunable) {
    ++pruned_;
    ++knowable_;
    labels_ += candidate.measured ? 1 : 0;
    weight_sum_ += loss;
    weight_squares_ += loss * loss;
    largest_weight_ = std::max(largest_weight_, 1 / q);
  }
  if (candidate.win_probability >= candidate.certified) return;
  // A wealth that never falls below its stake detects a change at any time.
  for (size_t bet = 0; bet < kBets.size(); ++bet) {
    const double nu = kBets[bet] / options_.alpha;
    // Full bets on rare labels would be lost at once.
    const double careful = nu * std::min(1.0, q);
    alarm_[bet] = std::max(0.0, alarm_[bet] + std::log1p(careful * (loss - options_.alpha)));
  }
  if (LogMean(alarm_, kStakes) >= std::log(kAlarmWealth)) Alarm();
}

void RiskMonitor::Alarm() {
  ++alarms_;
  wealth_ = {};
  certified_ = {};
  alarm_ = {};
  order_ = {};
  disorder_ = 0;
  informative_ = false;
  unpaired_.reset();
  for (Waiting& candidate : waiting_) candidate.certified = 0;
}

double RiskMonitor::threshold() const {
  if (!informative_) return 0;
  for (size_t k = kThresholds.size(); k-- > 0;) {
    if (certified_[k]) return kThresholds[k];
  }
  return 0;
}

SelectiveRisk RiskMonitor::selective_risk() const {
  SelectiveRisk risk;
  risk.pruned = pruned_;
  risk.labels = labels_;
  if (pruned_ == 0 || knowable_ < 1) return risk;
  const double n = knowable_;
  const double mean = weight_sum_ / n;
  risk.estimate = mean;
  // Maurer and Pontil (arXiv 0907.3740), theorem 4, on each side at 97.5%.
  const double log_term = std::log(2 / 0.025);
  const double variance = n > 1 ? std::max(0.0, (weight_squares_ - n * mean * mean) / (n - 1)) : 0;
  const double half_width = n > 1 ? std::sqrt(2 * variance * log_term / n) +
                                        7 * largest_weight_ * log_term / (3 * (n - 1))
                                  : 1;
  risk.low = std::clamp(mean - half_width, 0.0, 1.0);
  risk.high = std::clamp(mean + half_width, 0.0, 1.0);
  return risk;
}

std::string RiskMonitor::Digest() const {
  std::string text = absl::StrCat("risk ", pruned_, " ", labels_, " ", knowable_, " ", weight_sum_,
                                  " alarms ", alarms_, " informative ", informative_, " ",
                                  LogMean(order_, kStakes), " threshold ", threshold());
  for (const Wealth& wealth : wealth_) absl::StrAppend(&text, " ", LogMean(wealth, kStakes));
  for (const Waiting& candidate : waiting_) {
    if (candidate.measured) absl::StrAppend(&text, " ", candidate.id, candidate.truth ? "+" : "");
  }
  return text;
}

}  // namespace kernelcast::orchestrator
