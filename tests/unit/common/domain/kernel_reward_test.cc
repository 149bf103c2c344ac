#include "common/domain/kernel_reward.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "common/domain/bins.h"

namespace kernelcast {
namespace {

Measurement Measured(double speedup, double low) {
  Measurement measurement;
  MeasuredOk ok;
  ok.speedup = {speedup, low, speedup * 1.1, 0.95};
  measurement.outcome = ok;
  return measurement;
}

Measurement Failed(MeasureOutcome outcome) {
  Measurement measurement;
  measurement.outcome = std::move(outcome);
  return measurement;
}

RewardedEvaluation Evaluation(const Measurement* measurement,
                              DecisionReason reason = DecisionReason::kRequested) {
  RewardedEvaluation evaluation;
  evaluation.decision.reason = reason;
  evaluation.decision.kind = KindOf(reason);
  evaluation.measurement = measurement;
  return evaluation;
}

Forecast RandomForecast(std::mt19937_64& random) {
  std::uniform_real_distribution<double> uniform(0, 1);
  Forecast forecast;
  for (int bin = 1; bin <= BinScheme::Default().size(); ++bin) {
    forecast.bin_probabilities.push_back(uniform(random));
  }
  REQUIRE(NormalizeSimplex(forecast.bin_probabilities).ok());
  forecast.failure_probability = uniform(random);
  return forecast;
}

TEST_CASE("A correct kernel is rewarded for its speedup over the baseline", "[reward]") {
  const Measurement measurement = Measured(3, 2.8);
  KernelRewardSpec spec;
  CHECK(RewardKernel(spec, Evaluation(&measurement)).value == Approx(3));
  spec.baseline_speedup = 1.5;
  spec.correctness = 0.25;
  const KernelReward reward = RewardKernel(spec, Evaluation(&measurement));
  CHECK(reward.value == Approx(2.25));
  CHECK(reward.basis == KernelReward::Basis::kMeasured);
  CHECK(reward.propensity == 1);
  CHECK(reward.rules.empty());
  spec.shape = RewardShape::kLog2Speedup;
  CHECK(RewardKernel(spec, Evaluation(&measurement)).value == Approx(1.25));
  spec.limit = 0.5;
  CHECK(RewardKernel(spec, Evaluation(&measurement)).value == Approx(0.75));
}

TEST_CASE("Each failure has its own rule and penalty", "[reward]") {
  KernelRewardSpec spec;
  spec.correctness = 1;
  for (const std::string_view rule : kRewardRules) {
    spec.penalties.emplace(rule, 0.125 * static_cast<double>(rule.size()));
  }
  REQUIRE(ValidateRewardSpec(spec).ok());
  const std::pair<const char*, MeasureOutcome> outcomes[] = {{"wrong_result", WrongResult()},
                                                             {"crash", Crash()},
                                                             {"timeout", Timeout()},
                                                             {"exploit", Exploit()}};
  for (const auto& [rule, outcome] : outcomes) {
    const Measurement measurement = Failed(outcome);
    const KernelReward reward = RewardKernel(spec, Evaluation(&measurement));
    CHECK(reward.rules == std::vector<std::string>{rule});
    CHECK(reward.value == Approx(-spec.penalties.at(rule)));
  }
  RewardedEvaluation broken = Evaluation(nullptr, DecisionReason::kCompileError);
  broken.compile_error = true;
  CHECK(RewardKernel(spec, broken).value == Approx(-spec.penalties.at("compile_error")));
  const Measurement slow = Measured(1.2, 0.9);
  const KernelReward reward = RewardKernel(spec, Evaluation(&slow));
  CHECK(reward.rules == std::vector<std::string>{"not_faster"});
  CHECK(reward.value == Approx(1 + 1.2 - spec.penalties.at("not_faster")));
}

TEST_CASE("The speed of light is the mean score of all bench shapes", "[reward]") {
  Measurement measurement = Measured(2, 1.9);
  auto& ok = std::get<MeasuredOk>(measurement.outcome);
  KernelRewardSpec spec;
  spec.shape = RewardShape::kSpeedOfLight;
  CHECK_FALSE(RewardKernel(spec, Evaluation(&measurement)).value.has_value());
  ok.shapes.resize(2);
  ok.shapes[0].roofline.emplace().score = 0.6;
  CHECK_FALSE(RewardKernel(spec, Evaluation(&measurement)).value.has_value());
  ok.shapes[1].roofline.emplace().score = 0.8;
  CHECK(RewardKernel(spec, Evaluation(&measurement)).value == Approx(0.7));
  ok.shapes[0].weight = 0.75;
  ok.shapes[1].weight = 0.25;
  CHECK(RewardKernel(spec, Evaluation(&measurement)).value == Approx(0.65));
  spec.baseline_speedup = 2;
  CHECK_FALSE(ValidateRewardSpec(spec).ok());
}

TEST_CASE("What says nothing about a kernel has no value", "[reward]") {
  const KernelRewardSpec spec;
  const Measurement unstable = Failed(EnvironmentUnstable());
  CHECK(RewardKernel(spec, Evaluation(&unstable)).no_verdict == "the environment was unstable");
  const Measurement checked = Failed(Passed());
  CHECK(RewardKernel(spec, Evaluation(&checked)).no_verdict == "nothing was timed");
  RewardedEvaluation away = Evaluation(nullptr, DecisionReason::kUnavailable);
  away.rejection = "unavailable: no worker";
  const KernelReward reward = RewardKernel(spec, away);
  CHECK_FALSE(reward.value.has_value());
  CHECK(reward.no_verdict == "unavailable: no worker");
}

TEST_CASE("A forecast is a reward only where the caller accepts it", "[reward]") {
  Forecast forecast;
  forecast.bin_probabilities = {0, 0, 0, 0, 0, 1, 0, 0};  // (1.41, 2]
  forecast.failure_probability = 0.25;
  RewardedEvaluation pruned = Evaluation(nullptr, DecisionReason::kForecastOnly);
  pruned.decision.audit_propensity = 0;
  pruned.forecast = &forecast;
  KernelRewardSpec spec;
  spec.penalties["wrong_result"] = 2;
  CHECK_FALSE(RewardKernel(spec, pruned).value.has_value());
  spec.accept_forecasts = true;
  const KernelReward reward = RewardKernel(spec, pruned);
  CHECK(reward.basis == KernelReward::Basis::kForecast);
  const double speedup = std::exp2(BinScheme::Default().Log2Midpoint(6));
  CHECK(reward.value == Approx(0.75 * speedup - 0.25 * 2));
}

// The expectation over the audit draw is p x (measured) + (1 - p) x (pruned).
TEST_CASE("The expectation over the audit draw is the value of measuring everything", "[reward]") {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> uniform(0, 1);
  for (int i = 0; i < 2000; ++i) {
    KernelRewardSpec spec;
    spec.shape = static_cast<RewardShape>(i % 2);
    spec.estimator = static_cast<RewardEstimator>(i / 2 % 2);
    spec.correctness = uniform(random);
    spec.limit = i % 3 == 0 ? 1.5 : 0;
    spec.baseline_speedup = 0.5 + uniform(random);
    spec.penalties = {{"wrong_result", uniform(random)}, {"not_faster", uniform(random)}};
    REQUIRE(ValidateRewardSpec(spec).ok());
    const double speedup = std::exp2(6 * uniform(random) - 3);
    const Measurement measurement =
        i % 5 == 0 ? Failed(WrongResult()) : Measured(speedup, speedup * 0.9);
    const double all = *RewardKernel(spec, Evaluation(&measurement)).value;
    const Forecast forecast = RandomForecast(random);
    RewardedEvaluation audited = Evaluation(&measurement, DecisionReason::kAudit);
    RewardedEvaluation pruned = Evaluation(nullptr, DecisionReason::kUnpromising);
    const double propensity = 0.01 + 0.99 * uniform(random);
    for (RewardedEvaluation* evaluation : {&audited, &pruned}) {
      evaluation->decision.audit_propensity = propensity;
      if (i % 7 != 0) evaluation->forecast = &forecast;
    }
    const KernelReward measured = RewardKernel(spec, audited);
    const KernelReward not_measured = RewardKernel(spec, pruned);
    CHECK(measured.basis == KernelReward::Basis::kEstimated);
    CHECK(not_measured.basis == KernelReward::Basis::kEstimated);
    CHECK(measured.control == not_measured.control);
    CHECK(propensity * *measured.value + (1 - propensity) * *not_measured.value ==
          Approx(all).margin(1e-9));
  }
}

TEST_CASE("Drawn audits average to measuring everything, with less spread by a good forecast",
          "[reward]") {
  constexpr int kDraws = 20000;
  constexpr double kPropensity = 0.1;
  std::mt19937_64 random(11);
  std::bernoulli_distribution audit(kPropensity);
  Forecast forecast;
  forecast.bin_probabilities = {0, 0, 0, 0.2, 0.8, 0, 0, 0};
  const Measurement measurement = Measured(1.2, 1.1);
  double deviations[2] = {0, 0};
  for (const RewardEstimator estimator :
       {RewardEstimator::kDoublyRobust, RewardEstimator::kInversePropensity}) {
    KernelRewardSpec spec;
    spec.estimator = estimator;
    double sum = 0;
    double squares = 0;
    for (int i = 0; i < kDraws; ++i) {
      const bool drawn = audit(random);
      RewardedEvaluation evaluation =
          Evaluation(drawn ? &measurement : nullptr,
                     drawn ? DecisionReason::kAudit : DecisionReason::kUnpromising);
      evaluation.decision.audit_propensity = kPropensity;
      evaluation.forecast = &forecast;
      const double value = *RewardKernel(spec, evaluation).value;
      sum += value;
      squares += value * value;
    }
    const double mean = sum / kDraws;
    const double deviation = std::sqrt(squares / kDraws - mean * mean);
    CHECK(std::abs(mean - 1.2) < 5 * deviation / std::sqrt(kDraws));
    deviations[estimator == RewardEstimator::kInversePropensity ? 1 : 0] = deviation;
  }
  CHECK(deviations[0] < deviations[1] / 5);
}

TEST_CASE("A malformed specification names the field and what is allowed", "[reward]") {
  const auto error = [](KernelRewardSpec spec) {
    return std::string(ValidateRewardSpec(spec).message());
  };
  CHECK(error({}).empty());
  KernelRewardSpec spec;
  spec.penalties["slow"] = 1;
  CHECK(error(spec) ==
        "penalties: 'slow' is not one of compile_error, wrong_result, crash, timeout, exploit, "
        "not_faster");
  spec = {};
  spec.baseline_speedup = -1;
  CHECK(error(spec) == "baseline_speedup: -1 is not a positive finite number");
  spec = {};
  spec.limit = std::nan("");
  CHECK_FALSE(error(spec).empty());
}

}  // namespace
}  // namespace kernelcast
