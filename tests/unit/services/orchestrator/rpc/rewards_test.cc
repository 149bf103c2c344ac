#include "services/orchestrator/rpc/rewards.h"

#include <catch2/catch.hpp>
#include <string>

#include "common/domain/bins.h"

namespace kernelcast::orchestrator {
namespace {

v1::EvaluateReply Measured(double speedup) {
  v1::EvaluateReply reply;
  v1::Evaluation& evaluation = *reply.mutable_evaluation();
  evaluation.mutable_decision()->set_kind(v1::DECISION_KIND_MEASURE);
  evaluation.mutable_decision()->set_reason(v1::DECISION_REASON_REQUESTED);
  evaluation.mutable_decision()->set_audit_propensity(1);
  v1::Measurement& measured = *evaluation.mutable_measured();
  measured.set_level(v1::MEASURE_LEVEL_SCREEN);
  v1::MeasuredOk& ok = *measured.mutable_ok();
  ok.set_comparison(v1::COMPARISON_FASTER);
  ok.mutable_speedup()->set_value(speedup);
  ok.mutable_speedup()->set_low(speedup);
  ok.mutable_speedup()->set_high(speedup);
  return reply;
}

TEST_CASE("A reply gets the reward of each of its evaluations") {
  v1::EvaluateReply reply = Measured(2);
  *reply.add_further() = Measured(3).evaluation();
  AddRewards(KernelRewardSpec(), reply);
  const v1::KernelReward& reward = reply.evaluation().reward();
  CHECK(reward.value() == Approx(2));
  CHECK(reward.measured() == Approx(2));
  CHECK_FALSE(reward.has_control());
  CHECK(reward.basis() == v1::KernelReward::BASIS_MEASURED);
  CHECK(reward.reward_version() == "kernel-reward/1");
  CHECK(reply.further(0).reward().value() == Approx(3));
}

TEST_CASE("The estimate of an audited candidate uses the forecast that was decided on") {
  v1::EvaluateReply reply = Measured(2);
  v1::Evaluation& evaluation = *reply.mutable_evaluation();
  evaluation.mutable_decision()->set_reason(v1::DECISION_REASON_AUDIT);
  evaluation.mutable_decision()->set_audit_propensity(0.25);
  v1::Forecast& forecast = *evaluation.mutable_decided_on();
  forecast.set_bin_scheme_id("sqrt2/1");
  for (int bin = 1; bin <= BinScheme::Default().size(); ++bin) {
    forecast.add_bin_probabilities(bin == 4 ? 1 : 0);
  }
  AddRewards(KernelRewardSpec(), reply);
  const v1::KernelReward& reward = evaluation.reward();
  REQUIRE(reward.has_control());
  CHECK(reward.value() == Approx(reward.control() + (2 - reward.control()) / 0.25));
  CHECK(reward.propensity() == 0.25);
  CHECK(reward.basis() == v1::KernelReward::BASIS_ESTIMATED);
}

TEST_CASE("A rejection has no verdict unless the candidate does not compile") {
  v1::EvaluateReply reply;
  v1::Evaluation& evaluation = *reply.mutable_evaluation();
  evaluation.mutable_decision()->set_kind(v1::DECISION_KIND_REJECT);
  evaluation.mutable_decision()->set_reason(v1::DECISION_REASON_UNAVAILABLE);
  evaluation.mutable_rejected()->set_unavailable("no worker");
  KernelRewardSpec spec;
  spec.penalties["compile_error"] = 0.5;
  AddRewards(spec, reply);
  CHECK_FALSE(evaluation.reward().has_value());
  CHECK(evaluation.reward().no_verdict() == "unavailable: no worker");

  evaluation.clear_reward();
  evaluation.mutable_decision()->set_reason(v1::DECISION_REASON_COMPILE_ERROR);
  evaluation.mutable_rejected()->mutable_compile_error();
  AddRewards(spec, reply);
  CHECK(evaluation.reward().value() == -0.5);
  CHECK(evaluation.reward().rules(0) == "compile_error");
}

TEST_CASE("A reward that another orchestrator has added stays, and an error gets none") {
  v1::EvaluateReply reply = Measured(2);
  reply.mutable_evaluation()->mutable_reward()->set_value(7);
  AddRewards(KernelRewardSpec(), reply);
  CHECK(reply.evaluation().reward().value() == 7);
  v1::EvaluateReply error;
  error.mutable_error()->set_message("overloaded");
  AddRewards(KernelRewardSpec(), error);
  CHECK_FALSE(error.has_evaluation());
}

TEST_CASE("A malformed specification is refused with its field") {
  v1::KernelRewardSpec proto;
  proto.set_shape(v1::KernelRewardSpec::SHAPE_LOG2_SPEEDUP);
  proto.set_baseline_speedup(1.5);
  (*proto.mutable_penalties())["exploit"] = 2;
  const auto spec = FromProto(proto);
  REQUIRE(spec.ok());
  CHECK(spec->shape == RewardShape::kLog2Speedup);
  CHECK(spec->baseline_speedup == 1.5);
  CHECK(spec->penalties.at("exploit") == 2);
  (*proto.mutable_penalties())["slow"] = 1;
  CHECK(std::string(FromProto(proto).status().message()).substr(0, 28) ==
        "reward.penalties: 'slow' is ");
  proto.set_shape(static_cast<v1::KernelRewardSpec::Shape>(99));
  CHECK(FromProto(proto).status().message() == "reward.shape: unknown value 99");
}

}  // namespace
}  // namespace kernelcast::orchestrator
