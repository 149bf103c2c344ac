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

double ExpectedImprovementPerCost(const Forecast& forecast, double best_speedup) {
  const double cost = 0.5 + 0.5 * std::exp2(-forecast.expected_log2_speedup);
  return ExpectedImprovement(forecast, best_speedup) / cost;
}

void RouteHistory::Decide(std::string_view request_id, const Decision& decision,
                          const Forecast* forecast) {
  if (forecast == nullptr || !IsDecided(decision)) return;
  scores_.push_back({decision.win_probability,
                     ExpectedImprovementPerCost(*forecast, decision.incumbent_speedup)});
  if (scores_.size() > kWindow) scores_.pop_front();
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

double RouteHistory::ShareWithHigherWinProbability(double win_probability) const {
  if (scores_.empty()) return 0;
  const auto higher = std::count_if(scores_.begin(), scores_.end(), [&](const Score& score) {
    return score.win_probability > win_probability;
  });
  return static_cast<double>(higher) / static_cast<double>(scores_.size());
}

double RouteHistory::ShareWithHigherValue(double improvement_per_cost) const {
  if (scores_.empty()) return 0;
  const auto higher = std::count_if(scores_.begin(), scores_.end(), [&](const Score& score) {
    return score.improvement_per_cost > improvement_per_cost;
  });
  return static_cast<double>(higher) / static_cast<double>(scores_.size());
}

std::string RouteHistory::Digest() const {
  double sum = 0;
  for (const Score& score : scores_) sum += score.win_probability + score.improvement_per_cost;
  return absl::StrCat("scores ", scores_.size(), " ", sum, " ", risk_.Digest());
}

}  // namespace kernelcast::orchestrator
