#include "common/domain/kernel_reward.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/domain/bins.h"
#include "common/domain/text.h"

namespace kernelcast {
namespace {

constexpr std::string_view kCompileError = "compile_error";
constexpr std::string_view kWrongResult = "wrong_result";
constexpr std::string_view kNotFaster = "not_faster";

double PenaltyOf(const KernelRewardSpec& spec, std::string_view rule) {
  const auto found = spec.penalties.find(rule);
  return found == spec.penalties.end() ? 0 : found->second;
}

// The shape's value of a kernel that is `speedup` times as fast as the baseline. The speed of light
// is not known here and taken to be infinite.
double ShapeValue(RewardShape shape, double speedup) {
  switch (shape) {
    case RewardShape::kSpeedup: return speedup;
    case RewardShape::kLog2Speedup: return std::log2(speedup);
    case RewardShape::kSpeedOfLight: return speedup / (1 + speedup);
  }
  return 0;
}

double ValueOfCorrect(const KernelRewardSpec& spec, double shape_value, bool faster) {
  if (spec.limit > 0) shape_value = std::clamp(shape_value, -spec.limit, spec.limit);
  return spec.correctness + shape_value - (faster ? 0 : PenaltyOf(spec, kNotFaster));
}

// Weighted mean score over the bench shapes; empty if one has none.
std::optional<double> SpeedOfLightScore(const MeasuredOk& ok) {
  if (ok.shapes.empty()) return std::nullopt;
  const std::vector<double> weights = ShapeWeights(ok);
  double sum = 0;
  for (size_t i = 0; i < ok.shapes.size(); ++i) {
    if (!ok.shapes[i].roofline.has_value()) return std::nullopt;
    sum += weights[i] * ok.shapes[i].roofline->score;
  }
  return sum;
}

// Expectation of the value under the forecast. It must not depend on the measurement, so that the
// doubly robust estimate is unbiased.
std::optional<double> ControlOf(const KernelRewardSpec& spec, const Forecast* forecast) {
  if (forecast == nullptr) return std::nullopt;
  const absl::StatusOr<const BinScheme*> scheme = BinScheme::Find(forecast->bin_scheme_id);
  if (!scheme.ok() ||
      forecast->bin_probabilities.size() != static_cast<size_t>((*scheme)->size())) {
    return std::nullopt;
  }
  double correct = 0;
  for (int bin = 1; bin <= (*scheme)->size(); ++bin) {
    const double speedup = std::exp2((*scheme)->Log2Midpoint(bin)) / spec.baseline_speedup;
    correct += forecast->bin_probabilities[static_cast<size_t>(bin - 1)] *
               ValueOfCorrect(spec, ShapeValue(spec.shape, speedup), speedup > 1);
  }
  const double failure = std::clamp(forecast->failure_probability, 0.0, 1.0);
  const double value = (1 - failure) * correct - failure * PenaltyOf(spec, kWrongResult);
  if (!std::isfinite(value)) return std::nullopt;
  return value;
}

// Sets `measured` and `rules`, or `no_verdict`.
void AddMeasured(const KernelRewardSpec& spec, const Measurement& measurement,
                 KernelReward& reward) {
  if (std::holds_alternative<EnvironmentUnstable>(measurement.outcome)) {
    reward.no_verdict = "the environment was unstable";
    return;
  }
  if (std::holds_alternative<Passed>(measurement.outcome)) {
    reward.no_verdict = "nothing was timed";
    return;
  }
  const auto* ok = std::get_if<MeasuredOk>(&measurement.outcome);
  if (ok == nullptr) {
    reward.rules.emplace_back(OutcomeName(measurement.outcome));
    reward.measured = -PenaltyOf(spec, reward.rules.back());
    return;
  }
  double shape_value = 0;
  if (spec.shape == RewardShape::kSpeedOfLight) {
    const std::optional<double> score = SpeedOfLightScore(*ok);
    if (!score.has_value()) {
      reward.no_verdict = "the speed of light is not known at each bench shape";
      return;
    }
    shape_value = *score;
  } else {
    if (!(ok->speedup.value > 0)) {
      reward.no_verdict = "the measurement has no speedup";
      return;
    }
    shape_value = ShapeValue(spec.shape, ok->speedup.value / spec.baseline_speedup);
  }
  const bool faster = ok->speedup.low > spec.baseline_speedup;
  if (!faster) reward.rules.emplace_back(kNotFaster);
  reward.measured = ValueOfCorrect(spec, shape_value, faster);
}

}  // namespace

absl::Status ValidateRewardSpec(const KernelRewardSpec& spec) {
  if (!(spec.baseline_speedup > 0) || !std::isfinite(spec.baseline_speedup)) {
    return absl::InvalidArgumentError(
        absl::StrCat("baseline_speedup: ", NumberText(spec.baseline_speedup),
                     " is not a positive finite number"));
  }
  if (spec.shape == RewardShape::kSpeedOfLight && spec.baseline_speedup != 1) {
    return absl::InvalidArgumentError(
        "baseline_speedup: the baseline of the speed-of-light score is the reference");
  }
  if (!(spec.limit >= 0) || !std::isfinite(spec.limit)) {
    return absl::InvalidArgumentError(
        absl::StrCat("limit: ", NumberText(spec.limit), " is not a finite number of 0 or more"));
  }
  if (!std::isfinite(spec.correctness)) {
    return absl::InvalidArgumentError("correctness: is not a finite number");
  }
  for (const auto& [rule, penalty] : spec.penalties) {
    if (std::ranges::find(kRewardRules, rule) == std::end(kRewardRules)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "penalties: ", Quoted(rule), " is not one of ",
          CommaList(std::vector<std::string>(std::begin(kRewardRules), std::end(kRewardRules)))));
    }
    if (!std::isfinite(penalty)) {
      return absl::InvalidArgumentError(
          absl::StrCat("penalties: that of ", rule, " is not a finite number"));
    }
  }
  return absl::OkStatus();
}

KernelReward RewardKernel(const KernelRewardSpec& spec, const RewardedEvaluation& evaluation) {
  KernelReward reward;
  if (evaluation.compile_error) {
    reward.rules.emplace_back(kCompileError);
    reward.measured = reward.value = -PenaltyOf(spec, kCompileError);
    return reward;
  }
  if (!evaluation.rejection.empty()) {
    reward.no_verdict = evaluation.rejection;
    return reward;
  }
  const Decision& decision = evaluation.decision;
  const bool drawn =
      decision.kind == DecisionKind::kPrune || decision.reason == DecisionReason::kAudit ||
      (decision.reason == DecisionReason::kNoForecast && decision.audit_propensity < 1);
  reward.propensity = drawn ? std::clamp(decision.audit_propensity, 0.0, 1.0) : 1;
  reward.control = ControlOf(spec, evaluation.forecast);
  if (evaluation.measurement != nullptr) {
    AddMeasured(spec, *evaluation.measurement, reward);
    if (!reward.measured.has_value()) return reward;
  }
  if (!drawn && reward.measured.has_value()) {
    reward.value = reward.measured;
    return reward;
  }
  if (!(reward.propensity > 0)) {
    if (spec.accept_forecasts && reward.control.has_value()) {
      reward.basis = KernelReward::Basis::kForecast;
      reward.value = reward.control;
    } else {
      reward.no_verdict = "the candidate was settled on its forecast, without a chance of an audit";
    }
    return reward;
  }
  // Horvitz-Thompson: the control is 0.
  const bool robust = spec.estimator == RewardEstimator::kDoublyRobust;
  const double control = robust ? reward.control.value_or(0) : 0;
  reward.basis = KernelReward::Basis::kEstimated;
  reward.value = control;
  if (reward.measured.has_value()) {
    reward.value = control + (*reward.measured - control) / reward.propensity;
  }
  return reward;
}

}  // namespace kernelcast
