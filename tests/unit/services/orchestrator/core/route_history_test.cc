#include "services/orchestrator/core/route_history.h"

#include <catch2/catch.hpp>
#include <string>

namespace kernelcast::orchestrator {
namespace {

Forecast ForecastOf(double log2_speedup, double sigma, double failure = 0) {
  Forecast forecast;
  forecast.expected_log2_speedup = log2_speedup;
  forecast.stddev_log2_speedup = sigma;
  forecast.failure_probability = failure;
  return forecast;
}

Decision DecisionOf(DecisionReason reason, double win_probability) {
  Decision decision;
  decision.reason = reason;
  decision.kind = KindOf(reason);
  decision.win_probability = win_probability;
  decision.audit_propensity = decision.kind == DecisionKind::kMeasure ? 1 : 0.05;
  decision.incumbent_speedup = 2;
  return decision;
}

TEST_CASE("Expected improvement has its worked values") {
  // Mean of a standard normal above its mean: 1 / sqrt(2 pi).
  CHECK(ExpectedImprovement(ForecastOf(1, 1), 2) == Approx(0.3989423).epsilon(1e-6));
  CHECK(ExpectedImprovement(ForecastOf(1, 1, 0.25), 2) == Approx(0.75 * 0.3989423).epsilon(1e-6));
  CHECK(ExpectedImprovement(ForecastOf(3, 1e-9), 2) == Approx(2));
  CHECK(ExpectedImprovement(ForecastOf(-30, 0.1), 2) == Approx(0).margin(1e-12));
}

TEST_CASE("Ranks are among the last candidates") {
  RouteHistory history;
  const Forecast forecast = ForecastOf(1, 0.5);
  CHECK(history.RankByWinProbability(0).higher == 0);
  for (int i = 0; i < 200; ++i) {
    history.Decide(std::to_string(i), DecisionOf(DecisionReason::kUnpromising, 0.9), &forecast);
  }
  for (size_t i = 0; i < RouteHistory::kWindow; ++i) {
    const double win = static_cast<double>(i) / RouteHistory::kWindow;
    history.Decide("last" + std::to_string(i), DecisionOf(DecisionReason::kUnpromising, win),
                   &forecast);
  }
  CHECK(history.RankByWinProbability(0.75).higher == Approx(0.25).margin(0.02));
  CHECK(history.RankByWinProbability(1).higher == 0);
  CHECK(history.RankByWinProbability(-1).higher == 1);
}

TEST_CASE("A candidate that waits for budget or has no forecast is not yet a decision") {
  RouteHistory history;
  const Forecast forecast = ForecastOf(1, 0.5);
  history.Decide("a", DecisionOf(DecisionReason::kBudgetPace, 0.9), &forecast);
  history.Decide("b", DecisionOf(DecisionReason::kNoForecast, 0.9), nullptr);
  CHECK(history.RankByWinProbability(0).higher == 0);
  CHECK(history.risk().selective_risk().pruned == 0);
}

TEST_CASE("Audits of candidates that wait for budget say nothing about the risk of pruning") {
  RouteHistory history;
  const Forecast forecast = ForecastOf(1, 0.5);
  Decision decision = DecisionOf(DecisionReason::kAudit, 0.4);
  decision.audit_propensity = 0.05;
  decision.audited_reason = DecisionReason::kBudgetPace;
  history.Decide("pace", decision, &forecast);
  history.Settle("pace", decision, 4, 0.02);
  CHECK(history.risk().selective_risk().pruned == 0);
  decision.audited_reason = DecisionReason::kUnpromising;
  history.Decide("unpromising", decision, &forecast);
  history.Settle("unpromising", decision, 4, 0.02);
  CHECK(history.risk().selective_risk().pruned == 1);
  // Decided when audits were no longer possible.
  Decision late = DecisionOf(DecisionReason::kUnpromising, 0.01);
  late.audit_propensity = 0;
  history.Decide("late", late, &forecast);
  CHECK(history.risk().selective_risk().pruned == 1);
}

TEST_CASE("A winner beats its decision's incumbent by the margin") {
  RouteHistory history({.alpha = 0.1, .delta = 0.1});
  const Forecast forecast = ForecastOf(1, 0.5);
  const auto audit = [&](const std::string& id, double speedup) {
    Decision decision = DecisionOf(DecisionReason::kAudit, 0.03);
    decision.audit_propensity = 0.5;
    history.Decide(id, decision, &forecast);
    history.Settle(id, decision, speedup, 0.02);
  };
  audit("same", 2.03);
  audit("failed", 0);
  audit("nothing came of it", -1);
  CHECK(history.risk().selective_risk().estimate == 0);
  CHECK(history.risk().selective_risk().labels == 2);
  audit("faster", 2.05);
  audit("slower", 1.5);
  audit("slow", 1.2);
  const SelectiveRisk risk = history.risk().selective_risk();
  CHECK(risk.labels == 5);
  // One winner that represents two, among five minus the one that would have had no result
  // unaudited.
  CHECK(risk.estimate == Approx(2.0 / 4));
}

}  // namespace
}  // namespace kernelcast::orchestrator
