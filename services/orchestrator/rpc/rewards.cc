#include "services/orchestrator/rpc/rewards.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/convert/convert.h"

namespace kernelcast::orchestrator {

using ::kernelcast::FromProto;

namespace {

v1::KernelReward ToProto(const KernelReward& reward) {
  v1::KernelReward proto;
  if (reward.value.has_value()) proto.set_value(*reward.value);
  proto.set_no_verdict(reward.no_verdict);
  switch (reward.basis) {
    case KernelReward::Basis::kMeasured: proto.set_basis(v1::KernelReward::BASIS_MEASURED); break;
    case KernelReward::Basis::kEstimated: proto.set_basis(v1::KernelReward::BASIS_ESTIMATED); break;
    case KernelReward::Basis::kForecast: proto.set_basis(v1::KernelReward::BASIS_FORECAST); break;
  }
  if (!reward.value.has_value()) proto.set_basis(v1::KernelReward::BASIS_UNSPECIFIED);
  proto.set_propensity(reward.propensity);
  if (reward.measured.has_value()) proto.set_measured(*reward.measured);
  if (reward.control.has_value()) proto.set_control(*reward.control);
  for (const std::string& rule : reward.rules) proto.add_rules(rule);
  proto.set_reward_version(std::string(kKernelRewardVersion));
  return proto;
}

KernelReward WithoutVerdict(std::string why) {
  KernelReward reward;
  reward.no_verdict = std::move(why);
  return reward;
}

KernelReward RewardOf(const KernelRewardSpec& spec, const v1::Evaluation& evaluation) {
  RewardedEvaluation settled;
  const absl::StatusOr<Decision> decision = FromProto(evaluation.decision());
  if (!decision.ok()) return WithoutVerdict(std::string(decision.status().message()));
  settled.decision = *decision;
  std::optional<Forecast> forecast;
  if (evaluation.has_decided_on()) {
    forecast = FromProto(evaluation.decided_on());
  } else if (evaluation.has_forecast()) {
    forecast = FromProto(evaluation.forecast());
  }
  if (forecast.has_value()) settled.forecast = &*forecast;
  std::optional<Measurement> measurement;
  if (evaluation.has_measured()) {
    absl::StatusOr<Measurement> measured = FromProto(evaluation.measured());
    if (!measured.ok()) return WithoutVerdict(std::string(measured.status().message()));
    measurement = *std::move(measured);
    settled.measurement = &*measurement;
  }
  const v1::Rejection& rejected = evaluation.rejected();
  switch (rejected.cause_case()) {
    case v1::Rejection::kCompileError: settled.compile_error = true; break;
    case v1::Rejection::kDuplicateOfRequestId:
      settled.rejection = "duplicate of request " + rejected.duplicate_of_request_id();
      break;
    case v1::Rejection::kBudget: settled.rejection = "budget: " + rejected.budget(); break;
    case v1::Rejection::kUnavailable:
      settled.rejection = "unavailable: " + rejected.unavailable();
      break;
    case v1::Rejection::kCancelled: settled.rejection = "cancelled: " + rejected.cancelled(); break;
    case v1::Rejection::CAUSE_NOT_SET:
      if (evaluation.has_rejected()) settled.rejection = "rejected";
      break;
  }
  return RewardKernel(spec, settled);
}

}  // namespace

absl::StatusOr<KernelRewardSpec> FromProto(const v1::KernelRewardSpec& proto) {
  KernelRewardSpec spec;
  const auto unknown = [](const char* field, int value) {
    return absl::InvalidArgumentError(absl::StrCat("reward.", field, ": unknown value ", value));
  };
  switch (proto.shape()) {
    case v1::KernelRewardSpec::SHAPE_UNSPECIFIED:
    case v1::KernelRewardSpec::SHAPE_SPEEDUP: spec.shape = RewardShape::kSpeedup; break;
    case v1::KernelRewardSpec::SHAPE_LOG2_SPEEDUP: spec.shape = RewardShape::kLog2Speedup; break;
    case v1::KernelRewardSpec::SHAPE_SPEED_OF_LIGHT: spec.shape = RewardShape::kSpeedOfLight; break;
    default: return unknown("shape", static_cast<int>(proto.shape()));
  }
  switch (proto.estimator()) {
    case v1::KernelRewardSpec::ESTIMATOR_UNSPECIFIED:
    case v1::KernelRewardSpec::ESTIMATOR_DOUBLY_ROBUST:
      spec.estimator = RewardEstimator::kDoublyRobust;
      break;
    case v1::KernelRewardSpec::ESTIMATOR_INVERSE_PROPENSITY:
      spec.estimator = RewardEstimator::kInversePropensity;
      break;
    default: return unknown("estimator", static_cast<int>(proto.estimator()));
  }
  if (proto.baseline_speedup() != 0) spec.baseline_speedup = proto.baseline_speedup();
  spec.limit = proto.limit();
  spec.correctness = proto.correctness();
  for (const auto& [rule, penalty] : proto.penalties()) spec.penalties.emplace(rule, penalty);
  spec.accept_forecasts = proto.accept_forecasts();
  KC_RETURN_IF_ERROR(WithPrefix("reward.", ValidateRewardSpec(spec)));
  return spec;
}

void AddRewards(const KernelRewardSpec& spec, v1::EvaluateReply& reply) {
  if (!reply.has_evaluation() || reply.evaluation().has_reward()) return;
  *reply.mutable_evaluation()->mutable_reward() = ToProto(RewardOf(spec, reply.evaluation()));
  for (v1::Evaluation& evaluation : *reply.mutable_further()) {
    *evaluation.mutable_reward() = ToProto(RewardOf(spec, evaluation));
  }
}

}  // namespace kernelcast::orchestrator
