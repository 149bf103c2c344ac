// Compares the estimated risk of pruning with the truth on streams of candidates that the
// production policies decide on.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdio>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "services/orchestrator/core/policy.h"
#include "services/orchestrator/core/route_history.h"

namespace kernelcast::orchestrator {
namespace {

constexpr int kStreams = 1000;
constexpr int kCandidates = 400;

struct Setup {
  std::string policy;
  std::map<std::string, double> parameters = {};
  uint64_t max_measurements = 0;
  bool selects = false;
  // Share of measurements without a result.
  double unknown = 0;
};

struct Result {
  double estimate = 0;
  double candidates = 0;
  double winners = 0;
};

// Runs one stream. Pruned candidates are settled only for the truth; the policy does not see the
// result.
Result RunStream(const Policy& policy, const Setup& setup, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform;
  RouteHistory history(policy.risk_options());
  Result result;
  double incumbent = 1;
  uint64_t measured = 0;
  for (int i = 0; i < kCandidates; ++i) {
    const double truth = 0.8 * normal(random);
    Forecast forecast;
    forecast.expected_log2_speedup = truth + 0.7 * normal(random);
    forecast.stddev_log2_speedup = 0.4;
    forecast.bin_probabilities =
        BinsFromStudentT(BinScheme::Default(), forecast.expected_log2_speedup, 0.4, 1e9);
    forecast.labels_seen = 100;
    PolicyInput input;
    input.forecast = &forecast;
    input.incumbent_speedup = incumbent;
    input.measured = measured;
    input.max_measurements = setup.max_measurements;
    input.decided = static_cast<uint64_t>(i);
    input.expected_decisions = kCandidates;
    input.selects = setup.selects;
    input.audit_draw = uniform(random);
    input.history = &history;
    Decision decision = policy.Decide(input);
    // Like the engine: a spent budget allows no audit.
    if (setup.max_measurements > 0 && measured >= setup.max_measurements) {
      decision.kind = DecisionKind::kPrune;
      decision.reason = DecisionReason::kBudgetPace;
      decision.audit_propensity = 0;
    }
    const std::string id = std::to_string(i);
    history.Decide(id, decision, &forecast);
    const bool won = std::exp2(truth) > decision.incumbent_speedup * (1 + policy.win_margin());
    const bool unknown = uniform(random) < setup.unknown;
    const DecisionReason reason = decision.audited_reason.value_or(decision.reason);
    if (decision.audit_propensity > 0 && !unknown &&
        (reason == DecisionReason::kUnpromising || reason == DecisionReason::kLikelyFailure)) {
      result.candidates += 1;
      result.winners += won ? 1 : 0;
    }
    if (decision.kind != DecisionKind::kMeasure) continue;
    ++measured;
    history.Settle(id, decision, unknown ? -1 : std::exp2(truth), policy.win_margin());
    if (!unknown) incumbent = std::max(incumbent, std::min(std::exp2(truth), 3.0));
  }
  result.estimate = history.risk().selective_risk().estimate;
  return result;
}

TEST_CASE("The estimated risk of pruning is unbiased over a thousand streams", "[risk][slow]") {
  const std::vector<Setup> setups = {
      {.policy = "threshold", .max_measurements = 0},
      {.policy = "threshold", .max_measurements = 40},
      {.policy = "threshold", .max_measurements = 300, .selects = true},
      {.policy = "threshold", .parameters = {{"audit_min", 0.2}}, .unknown = 0.3},
      {.policy = "top_k"},
      {.policy = "risk", .parameters = {{"alpha", 0.2}, {"delta", 0.2}}},
  };
  std::printf("%-10s %7s %7s %8s | %9s %9s %9s %9s\n", "policy", "budget", "selects", "unknown",
              "truth", "estimate", "bias", "std.error");
  for (const Setup& setup : setups) {
    const auto policy = MakePolicy(setup.policy, setup.parameters).value();
    double truth = 0, estimate = 0, sum = 0, squares = 0;
    int streams = 0;
    for (uint32_t seed = 1; seed <= kStreams; ++seed) {
      const Result result = RunStream(*policy, setup, seed);
      if (result.candidates == 0) continue;
      ++streams;
      const double own = result.winners / result.candidates;
      truth += own;
      estimate += result.estimate;
      sum += result.estimate - own;
      squares += (result.estimate - own) * (result.estimate - own);
    }
    REQUIRE(streams > kStreams / 2);
    const double bias = sum / streams;
    const double error = std::sqrt((squares / streams - bias * bias) / streams);
    std::printf("%-10s %7llu %7s %7.0f%% | %9.5f %9.5f %9.5f %9.5f\n", setup.policy.c_str(),
                static_cast<unsigned long long>(setup.max_measurements),
                setup.selects ? "yes" : "no", 100 * setup.unknown, truth / streams,
                estimate / streams, bias, error);
    CAPTURE(setup.policy, setup.max_measurements, setup.selects, setup.unknown);
    CHECK(truth / streams > 0.001);
    CHECK(std::abs(bias) <= 3.5 * error);
    // Precise enough to detect a bias of a third.
    CHECK(error < truth / streams / 3);
  }
}

TEST_CASE("Certificates are wrong with probability at most delta over all starts", "[risk]") {
  // A forecaster that is right until it has been certified, repeatedly, and then is wrong.
  const RiskOptions options{.alpha = 0.1, .delta = 0.1, .certifies = true};
  int wrong = 0;
  int starts = 0;
  constexpr int kRuns = 200;
  for (uint32_t seed = 1; seed <= kRuns; ++seed) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<double> uniform;
    RiskMonitor monitor(options);
    bool false_certificate = false;
    uint64_t start = 0;
    int since = 0;
    for (int i = 0; i < 6000 && !false_certificate; ++i) {
      if (monitor.alarms() != start) {
        start = monitor.alarms();
        since = 0;
        ++starts;
      }
      // From the second start on, winners are just above alpha, so every certificate is false.
      const double rate = start == 0 ? (monitor.threshold() > 0 ? 0.8 : 0.0) : 0.102;
      // Informative by ordered pairs, then blind every 400 candidates, which causes a new start.
      const bool blind = ++since % 400 > 390;
      const double forecast = blind ? 0 : (i % 2) + 1e-6 * i;
      const bool prunable = 0.3 < monitor.threshold();
      const double propensity = prunable ? 0.2 : 1;
      const bool measured = uniform(random) < propensity;
      const std::string id = std::to_string(i);
      monitor.Decide(id, 0.3, forecast, propensity, measured, prunable);
      if (measured) {
        monitor.Settle(
            id, uniform(random) < rate ? RiskMonitor::Truth::kWon : RiskMonitor::Truth::kLost,
            static_cast<double>(i % 2));
      }
      false_certificate = start > 0 && monitor.threshold() > 0;
    }
    wrong += false_certificate ? 1 : 0;
  }
  CAPTURE(starts);
  CHECK(starts > 2 * kRuns);
  CHECK(wrong <= options.delta * kRuns);
}

}  // namespace
}  // namespace kernelcast::orchestrator
