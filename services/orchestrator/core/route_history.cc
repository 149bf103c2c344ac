#include "services/orchestrator/core/route_history.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>

#include "absl/strings/str_cat.h"

namespace kernelcast::orchestrator {
namespace {

// Why it was pruned, or would have been without an audit. Logs of earlier releases lack the reason
// for audits.
std::optional<DecisionReason> PruneReason(const Decision& decision) {
  if (decision.kind == DecisionKind::kPrune) return decision.reason;
  if (decision.reason != DecisionReason::kAudit) return std::nullopt;
  return decision.audited_reason.value_or(DecisionReason::kUnpromising);
}

// Whether the forecast decided. Candidates that wait for the budget are undecided, audited or not.
// Pruned candidates that could not be audited say nothing about the risk.
bool IsDecided(const Decision& decision) {
  if (const std::optional<DecisionReason> reason = PruneReason(decision)) {
    return decision.audit_propensity > 0 &&
           (*reason == DecisionReason::kUnpromising || *reason == DecisionReason::kLikelyFailure);
  }
  switch (decision.reason) {
    case DecisionReason::kLowConfidence:
    case DecisionReason::kDeclined:
    case DecisionReason::kPromising:
    case DecisionReason::kSelected:
    case DecisionReason::kBootstrap: return true;
    default: return false;
  }
}

}  // namespace

double ExpectedImprovement(const Forecast& forecast, double best_speedup) {
  const double sigma = std::max(forecast.stddev_log2_speedup, 1e-6);
  const double gap =
      (forecast.expected_log2_speedup - std::log2(std::max(best_speedup, 1e-6))) / sigma;
  const double density = std::exp(-0.5 * gap * gap) / std::sqrt(2 * std::numbers::pi);
  const double upper = 0.5 * std::erfc(-gap / std::numbers::sqrt2);
  return (1 - forecast.failure_probability) * sigma * (gap * upper + density);
}

void RouteHistory::Forecast(std::string_view candidate_id, const kernelcast::Forecast& forecast) {
  // Count a candidate once, however often it is requested.
  auto entry = std::ranges::find(known_, candidate_id, &Known::candidate_id);
  if (entry == known_.end()) {
    if (known_.size() == kWindow) known_.pop_front();
    entry = known_.insert(known_.end(), Known{std::string(candidate_id), {}, {}, 0, 0, 0, {}});
  }
  entry->evidence_id = forecast.evidence_id;
  entry->labels_seen = forecast.labels_seen;
  entry->expected_log2_speedup = forecast.expected_log2_speedup;
  entry->stddev_log2_speedup = forecast.stddev_log2_speedup;
  entry->failure_probability = forecast.failure_probability;
  entry->bin_probabilities = forecast.bin_probabilities;
}

bool RouteHistory::IsSame(const Known& known, const kernelcast::Forecast& forecast, double margin) {
  if (!known.evidence_id.empty() && !forecast.evidence_id.empty()) {
    if (known.evidence_id == forecast.evidence_id) return true;
    // New labels move all forecasts, so those from before cannot be compared.
    if (known.labels_seen != forecast.labels_seen) return false;
  }
  const double ratio = std::log2(1 + margin);
  const auto differ = [](double a, double b, double by) { return std::abs(a - b) > by; };
  return !differ(known.expected_log2_speedup, forecast.expected_log2_speedup, ratio) &&
         !differ(known.stddev_log2_speedup, forecast.stddev_log2_speedup, ratio) &&
         !differ(known.failure_probability, forecast.failure_probability, margin) &&
         std::ranges::equal(known.bin_probabilities, forecast.bin_probabilities,
                            [&](double a, double b) { return !differ(a, b, margin); });
}

double RouteHistory::ShareWithSameForecast(const kernelcast::Forecast& forecast,
                                           double margin) const {
  if (known_.size() < 2) return 0;
  const auto same = std::count_if(known_.begin(), known_.end(), [&](const Known& known) {
    return IsSame(known, forecast, margin);
  });
  // One of them is the candidate itself.
  return static_cast<double>(std::max<ptrdiff_t>(0, same - 1)) /
         static_cast<double>(known_.size() - 1);
}

void RouteHistory::Decide(std::string_view request_id, const Decision& decision,
                          const kernelcast::Forecast* forecast) {
  if (forecast == nullptr || !IsDecided(decision)) return;
  win_probabilities_.push_back(decision.win_probability);
  if (win_probabilities_.size() > kWindow) win_probabilities_.pop_front();
  risk_.Decide(request_id, decision.win_probability, forecast->expected_log2_speedup,
               decision.audit_propensity, decision.kind == DecisionKind::kMeasure,
               PruneReason(decision).has_value());
}

void RouteHistory::Settle(std::string_view request_id, const Decision& decision, double speedup,
                          double win_margin) {
  const double win = decision.incumbent_speedup * (1 + win_margin);
  risk_.Settle(request_id,
               speedup < 0     ? RiskMonitor::Truth::kUnknown
               : speedup > win ? RiskMonitor::Truth::kWon
                               : RiskMonitor::Truth::kLost,
               speedup > 0 ? std::optional(std::log2(speedup)) : std::nullopt);
}

double Rank::ChanceAmong(double share) const {
  if (equal <= 0) return higher < share ? 1 : 0;
  return std::clamp((share - higher) / equal, 0.0, 1.0);
}

Rank RouteHistory::RankByWinProbability(double win_probability) const {
  if (win_probabilities_.empty()) return {};
  Rank rank;
  for (const double other : win_probabilities_) {
    rank.higher += other > win_probability ? 1 : 0;
    rank.equal += other == win_probability ? 1 : 0;
  }
  const auto all = static_cast<double>(win_probabilities_.size());
  return {rank.higher / all, rank.equal / all};
}

std::string RouteHistory::Digest() const {
  double sum = 0;
  for (const double win_probability : win_probabilities_) sum += win_probability;
  double known = 0;
  for (const Known& each : known_) known += each.expected_log2_speedup + each.failure_probability;
  return absl::StrCat("wins ", win_probabilities_.size(), " ", sum, " forecasts ", known_.size(),
                      " ", known, " ", risk_.Digest());
}

}  // namespace kernelcast::orchestrator
