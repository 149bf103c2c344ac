#include "services/orchestrator/core/policy.h"

#include <catch2/catch.hpp>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "common/domain/search_names.h"

namespace kernelcast::orchestrator {
namespace {

Forecast ForecastAt(double log2_speedup, double sigma, double failure = 0) {
  Forecast forecast;
  forecast.bin_probabilities = BinsFromStudentT(BinScheme::Default(), log2_speedup, sigma, 1e9);
  forecast.predicted_bin = ArgmaxBin(forecast.bin_probabilities);
  forecast.expected_log2_speedup = log2_speedup;
  forecast.stddev_log2_speedup = sigma;
  forecast.failure_probability = failure;
  forecast.labels_seen = 50;
  return forecast;
}

PolicyInput Seasoned(const Forecast& forecast) {
  PolicyInput input;
  input.forecast = &forecast;
  input.incumbent_speedup = 2;
  input.measured = 30;
  input.max_measurements = 100;
  input.decided = 100;
  input.expected_decisions = 200;
  input.audit_draw = 0.999;
  return input;
}

TEST_CASE("The threshold policy routes each kind of forecast") {
  const auto policy = MakePolicy("threshold", {}).value();

  const Forecast fast = ForecastAt(2.5, 0.3);
  CHECK(policy->Decide(Seasoned(fast)).reason == DecisionReason::kPromising);

  const Forecast slow = ForecastAt(-1, 0.3);
  CHECK(policy->Decide(Seasoned(slow)).reason == DecisionReason::kUnpromising);

  const Forecast unsure = ForecastAt(0.3, 1.0);
  const Decision deferred = policy->Decide(Seasoned(unsure));
  CHECK(deferred.reason == DecisionReason::kLowConfidence);
  CHECK(deferred.kind == DecisionKind::kMeasure);
  CHECK(deferred.win_probability > 0.05);
  CHECK(deferred.win_probability < 0.5);

  const Forecast broken = ForecastAt(2.5, 0.3, 0.95);
  CHECK(policy->Decide(Seasoned(broken)).reason == DecisionReason::kLikelyFailure);

  PolicyInput blind = Seasoned(fast);
  blind.forecast = nullptr;
  CHECK(policy->Decide(blind).reason == DecisionReason::kNoForecast);
}

TEST_CASE("A model that declines defers, alone and in a pool") {
  for (const std::string_view each : PolicyNames()) {
    const std::string name(each);
    INFO(name);
    const auto policy = MakePolicy(name, {}).value();
    const Forecast slow = ForecastAt(-1, 0.3);
    PolicyInput input = Seasoned(slow);
    input.declined = true;
    CHECK(policy->Decide(input).reason == DecisionReason::kDeclined);
    CHECK(policy->Decide(input).audit_propensity == 1);
    input.forecast = nullptr;
    CHECK(policy->Decide(input).reason == DecisionReason::kDeclined);
  }
}

TEST_CASE("Nothing is pruned before the bootstrap ends") {
  const auto policy = MakePolicy("threshold", {{"bootstrap_min", 6}}).value();
  Forecast slow = ForecastAt(-2, 0.1);
  slow.labels_seen = 0;
  PolicyInput input = Seasoned(slow);
  input.measured = 3;
  input.measuring = 2;
  input.max_measurements = 0;
  CHECK(policy->Decide(input).reason == DecisionReason::kBootstrap);
  input.measuring = 3;
  CHECK(policy->Decide(input).reason == DecisionReason::kUnpromising);
}

TEST_CASE("Labels of earlier searches shorten the bootstrap") {
  const auto policy = MakePolicy("threshold", {}).value();
  const Forecast slow = ForecastAt(-2, 0.1);
  PolicyInput input = Seasoned(slow);
  input.measured = 0;
  CHECK(policy->Decide(input).reason == DecisionReason::kUnpromising);
}

TEST_CASE("Reconsidered candidates get the budget that pacing withheld") {
  const auto policy = MakePolicy("threshold", {}).value();
  const Forecast unsure = ForecastAt(0.3, 1.0);
  PolicyInput input = Seasoned(unsure);
  input.measured = 60;
  CHECK(policy->Decide(input).reason == DecisionReason::kBudgetPace);
  input.reconsidered = true;
  CHECK(policy->Decide(input).reason == DecisionReason::kLowConfidence);
}

PolicyInput Selecting(const Forecast& forecast) {
  PolicyInput input = Seasoned(forecast);
  input.selects = true;
  input.start_size = 5;
  return input;
}

TEST_CASE("A selecting search measures its start and defers everything else") {
  const auto policy = MakePolicy("threshold", {}).value();
  // As wide as the prior.
  Forecast promising = ForecastAt(2.5, 2.6);
  promising.labels_seen = 0;
  PolicyInput input = Selecting(promising);
  input.measured = 4;
  CHECK(policy->Decide(input).reason == DecisionReason::kBudgetPace);
  input.start = true;
  CHECK(policy->Decide(input).reason == DecisionReason::kBootstrap);
  input.measured = 5;
  CHECK(policy->Decide(input).reason == DecisionReason::kBudgetPace);
  // The start does not use up a small budget.
  input.measured = 3;
  input.max_measurements = 6;
  CHECK(policy->Decide(input).reason == DecisionReason::kBudgetPace);

  input = Selecting(promising);
  input.reconsidered = true;
  CHECK(policy->Decide(input).reason == DecisionReason::kSelected);
}

TEST_CASE("A selecting search with informed forecasts starts with the best forecasts") {
  const auto policy = MakePolicy("threshold", {}).value();
  Forecast informed = ForecastAt(2.5, 0.3);
  informed.labels_seen = 0;
  PolicyInput input = Selecting(informed);
  input.measured = 0;
  input.start = true;
  CHECK(policy->Decide(input).reason == DecisionReason::kBudgetPace);
  input.reconsidered = true;
  CHECK(policy->Decide(input).reason == DecisionReason::kSelected);
}

TEST_CASE("A selecting search spends its budget on long shots but not hopeless ones") {
  const auto policy = MakePolicy("threshold", {}).value();
  const Forecast long_shot = ForecastAt(0, 0.5);
  PolicyInput input = Selecting(long_shot);
  CHECK(policy->Decide(input).reason == DecisionReason::kUnpromising);
  input.reconsidered = true;
  CHECK(policy->Decide(input).reason == DecisionReason::kSelected);
  const Forecast hopeless = ForecastAt(-2, 0.3);
  input.forecast = &hopeless;
  CHECK(policy->Decide(input).reason == DecisionReason::kUnpromising);
  const Forecast broken = ForecastAt(2.5, 0.3, 0.75);
  input.forecast = &broken;
  CHECK(policy->Decide(input).reason == DecisionReason::kLikelyFailure);
}

TEST_CASE("Selection waits for the expected decisions unless only time is limited") {
  const auto policy = MakePolicy("threshold", {}).value();
  PolicyInput input;
  input.selects = true;
  input.max_measurements = 10;
  input.expected_decisions = 40;
  input.decided = 39;
  CHECK_FALSE(policy->MaySelect(input));
  input.decided = 40;
  CHECK(policy->MaySelect(input));
  input.decided = 3;
  input.max_measurements = 0;
  CHECK(policy->MaySelect(input));
}

TEST_CASE("Audits take a bounded share of a selecting search's budget") {
  const auto policy = MakePolicy("threshold", {{"audit_share", 0.1}}).value();
  const Forecast unsure = ForecastAt(1, 0.8);
  PolicyInput input = Selecting(unsure);
  // 0.1 of 100 measurements over 200 decisions.
  CHECK(policy->Decide(input).audit_propensity == Approx(0.05));
  input.audit_draw = 0.049;
  CHECK(policy->Decide(input).reason == DecisionReason::kAudit);
  CHECK(policy->Decide(input).audited_reason == DecisionReason::kBudgetPace);
  input.max_measurements = 0;
  CHECK(policy->Decide(input).audit_propensity == Approx(0.2 * 0.5).margin(0.02));
  input.max_measurements = 10;
  CHECK(policy->Decide(input).audit_propensity == Approx(0.005));
  // Less than one audit.
  input.max_measurements = 9;
  input.audit_draw = 0;
  CHECK(policy->Decide(input).audit_propensity == 0);
  CHECK(policy->Decide(input).reason == DecisionReason::kBudgetPace);
}

TEST_CASE("Audits happen at their recorded propensity") {
  const auto policy = MakePolicy("threshold", {{"audit_min", 0.1}}).value();
  const Forecast slow = ForecastAt(-1, 0.3);
  PolicyInput input = Seasoned(slow);
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> unit(0, 1);
  int audited = 0;
  for (int i = 0; i < 20'000; ++i) {
    input.audit_draw = unit(random);
    const Decision decision = policy->Decide(input);
    REQUIRE(decision.audit_propensity == Approx(0.1));
    if (decision.reason == DecisionReason::kAudit) {
      ++audited;
      CHECK(decision.kind == DecisionKind::kMeasure);
    }
  }
  CHECK(audited / 20'000.0 == Approx(0.1).margin(0.01));
}

TEST_CASE("Candidates measured for any reason except an audit have propensity one") {
  const auto policy = MakePolicy("threshold", {}).value();
  for (double location : {-0.5, 0.0, 0.5, 1.0, 1.5, 2.0}) {
    const Forecast forecast = ForecastAt(location, 0.8);
    const Decision decision = policy->Decide(Seasoned(forecast));
    if (decision.kind == DecisionKind::kMeasure) CHECK(decision.audit_propensity == 1);
    CHECK(decision.policy == "threshold");
    CHECK(decision.policy_version == "threshold/6");
  }
}

TEST_CASE("Bad policies are refused with name, parameter and value") {
  auto message = [](std::string_view name, const std::map<std::string, double>& parameters) {
    const auto policy = MakePolicy(name, parameters);
    REQUIRE(policy.status().code() == absl::StatusCode::kInvalidArgument);
    return std::string(policy.status().message());
  };
  CHECK_THAT(message("magic", {}), Catch::Contains("'magic' is not one of threshold"));
  CHECK_THAT(message("threshold", {{"marign", 0.1}}), Catch::Contains("'marign'"));
  CHECK_THAT(message("threshold", {{"margin", -1}}), Catch::Contains("[margin]: -1"));
  CHECK_THAT(message("threshold", {{"margin", std::nan("")}}), Catch::Contains("margin"));
  CHECK_THAT(message("threshold", {{"prune_below", 0.8}}), Catch::Contains("promote_above"));
}

TEST_CASE("Every policy takes only its own parameters") {
  for (const std::string_view each : PolicyNames()) {
    const std::string name(each);
    INFO(name);
    const auto policy = MakePolicy(name, {{"audit_min", 0.2}});
    REQUIRE(policy.ok());
    CHECK((*policy)->name() == name);
    CHECK((*policy)->version().substr(0, name.size() + 1) == name + "/");
  }
  CHECK(MakePolicy("top_k", {{"share", 0.5}}).ok());
  const auto refused = MakePolicy("top_k", {{"alpha", 0.05}});
  CHECK(std::string(refused.status().message()).find("not a parameter of policy top_k") !=
        std::string::npos);
  CHECK_FALSE(MakePolicy("risk", {{"alpha", 0}}).ok());
  CHECK(MakePolicy("risk", {{"promote_above", 0.01}}).ok());
  CHECK(std::string(MakePolicy("best", {}).status().message()).find("risk") != std::string::npos);
}

// The history of a search whose last decisions had these win probabilities.
RouteHistory HistoryOf(const std::vector<double>& win_probabilities, RiskOptions options = {}) {
  RouteHistory history(options);
  int id = 0;
  for (const double win : win_probabilities) {
    const Forecast forecast = ForecastAt(id % 2, 0.5);
    Decision decision;
    decision.reason = DecisionReason::kLowConfidence;
    decision.kind = KindOf(decision.reason);
    decision.win_probability = win;
    decision.audit_propensity = 1;
    decision.incumbent_speedup = 2;
    history.Decide(std::to_string(++id), decision, &forecast);
    // Outcomes agree with the order of the forecasts.
    history.Settle(std::to_string(id), decision, id % 2 == 1 ? 1 : 2, 0.02);
  }
  return history;
}

TEST_CASE("top_k measures the best of the last candidates") {
  const auto policy = MakePolicy("top_k", {{"share", 0.25}}).value();
  std::vector<double> wins;
  for (int i = 0; i < 64; ++i) wins.push_back(i / 64.0);
  const RouteHistory history = HistoryOf(wins);
  const Forecast high = ForecastAt(1.4, 0.3);
  const Forecast low = ForecastAt(0.7, 0.3);
  PolicyInput input = Seasoned(high);
  input.history = &history;
  CHECK(policy->Decide(input).reason == DecisionReason::kPromising);
  input.forecast = &low;
  const Decision pruned = policy->Decide(input);
  CHECK(pruned.reason == DecisionReason::kUnpromising);
  CHECK(pruned.audit_propensity >= 0.05);
  input.audit_draw = 0;
  CHECK(policy->Decide(input).reason == DecisionReason::kAudit);
}

TEST_CASE("The risk policy defers uncertified candidates and prunes certified ones") {
  const auto policy = MakePolicy("risk", {{"alpha", 0.1}, {"delta", 0.1}}).value();
  CHECK(policy->risk_options() == RiskOptions{0.1, 0.1, true});
  const Forecast slow = ForecastAt(-1, 0.3);
  PolicyInput input = Seasoned(slow);
  CHECK(policy->Decide(input).reason == DecisionReason::kLowConfidence);
  const RouteHistory young = HistoryOf(std::vector<double>(20, 0.001), policy->risk_options());
  input.history = &young;
  CHECK(policy->Decide(input).reason == DecisionReason::kLowConfidence);
  const RouteHistory old = HistoryOf(std::vector<double>(100, 0.001), policy->risk_options());
  input.history = &old;
  const Decision pruned = policy->Decide(input);
  CHECK(pruned.reason == DecisionReason::kUnpromising);
  CHECK(pruned.threshold == 0.4);
  // A forecast of failure is not a certificate.
  const Forecast broken = ForecastAt(2.5, 0.3, 0.55);
  input.forecast = &broken;
  CHECK(policy->Decide(input).kind == DecisionKind::kMeasure);
}

}  // namespace
}  // namespace kernelcast::orchestrator
