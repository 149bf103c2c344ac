#include "services/forecaster/rpc/conversion.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <string>

#include "common/convert/convert.h"
#include "tests/unit/services/forecaster/planted_problem.h"

namespace kernelcast::forecaster {
namespace {

using Catch::Matchers::StartsWith;

v1::Label GoodLabel() {
  const PlantedProblem problem;
  v1::Label label;
  label.set_label_id("l1");
  *label.mutable_candidate() = kernelcast::ToProto(problem.candidates()[3]);
  *label.mutable_facts() = kernelcast::ToProto(problem.Facts(3));
  *label.mutable_reference_facts() = kernelcast::ToProto(problem.ReferenceFacts());
  label.mutable_speedup()->set_value(1.5);
  label.set_propensity(0.25);
  label.set_decision_reason(v1::DECISION_REASON_AUDIT);
  return label;
}

v1::ForecastRequest GoodRequest() {
  const v1::Label label = GoodLabel();
  v1::ForecastRequest request;
  request.set_request_id("r1");
  *request.mutable_candidate() = label.candidate();
  *request.mutable_facts() = label.facts();
  *request.mutable_reference_facts() = label.reference_facts();
  return request;
}

TEST_CASE("A label is converted completely", "[forecaster][conversion]") {
  ReceivedCandidates received;
  const absl::StatusOr<Label> label = FromProto(GoodLabel(), received);
  INFO(label.status());
  REQUIRE(label.ok());
  CHECK(label->label_id == "l1");
  CHECK(std::get<Ratio>(label->truth).value == 1.5);
  CHECK(label->propensity == 0.25);
  CHECK(label->decision_reason == DecisionReason::kAudit);
  CHECK_FALSE(label->forecast.has_value());

  v1::Label failure = GoodLabel();
  failure.set_failure(v1::FAILURE_LABEL_CRASH);
  CHECK(std::get<FailureKind>(FromProto(failure, received)->truth) == FailureKind::kCrash);
}

TEST_CASE("Labels and requests without a device model get the unknown one",
          "[forecaster][conversion]") {
  ReceivedCandidates received;
  v1::Label label = GoodLabel();
  CHECK(FromProto(label, received)->device_model == "unknown");
  label.set_device_model("NVIDIA H200");
  CHECK(FromProto(label, received)->device_model == "NVIDIA H200");
  label.set_device_model(std::string(129, 'x'));
  CHECK_THAT(std::string(FromProto(label, received).status().message()),
             StartsWith("device_model:"));

  v1::ForecastRequest request = GoodRequest();
  CHECK(FromProto(request, received)->device_model == "unknown");
  request.mutable_device()->set_model("NVIDIA L40S");
  CHECK(FromProto(request, received)->device_model == "NVIDIA L40S");
}

TEST_CASE("A label whose outcome is missing or unknown is refused", "[forecaster][conversion]") {
  ReceivedCandidates received;
  v1::Label label = GoodLabel();
  label.clear_truth();
  CHECK_THAT(std::string(FromProto(label, received).status().message()), StartsWith("truth:"));
  label.set_failure(v1::FAILURE_LABEL_UNSPECIFIED);
  CHECK_THAT(std::string(FromProto(label, received).status().message()), StartsWith("failure:"));
  label.mutable_candidate()->set_source("\xff");
  CHECK_THAT(std::string(FromProto(label, received).status().message()), StartsWith("candidate:"));
}

TEST_CASE("A request has defaults for missing fields", "[forecaster][conversion]") {
  ReceivedCandidates received;
  const absl::StatusOr<ForecastInput> input = FromProto(GoodRequest(), received);
  INFO(input.status());
  REQUIRE(input.ok());
  CHECK(input->bin_scheme->id() == "sqrt2/1");
  CHECK(input->baseline_speedup == 1);
  CHECK(input->problem == nullptr);
}

TEST_CASE("A malformed request is refused with its field", "[forecaster][conversion]") {
  ReceivedCandidates received;
  const auto message = [&](auto&& spoil) {
    v1::ForecastRequest request = GoodRequest();
    spoil(request);
    const absl::Status status = FromProto(request, received).status();
    CHECK(absl::IsInvalidArgument(status));
    return std::string(status.message());
  };
  CHECK_THAT(message([](auto& r) { r.set_request_id(std::string(257, 'x')); }),
             StartsWith("request_id:"));
  CHECK_THAT(message([](auto& r) { r.mutable_candidate()->set_source("\xff"); }),
             StartsWith("candidate:"));
  CHECK_THAT(message([](auto& r) { r.mutable_candidate()->set_candidate_id("k_0"); }),
             StartsWith("candidate:"));
  CHECK_THAT(message([](auto& r) { r.mutable_facts()->add_values(1); }), StartsWith("facts:"));
  CHECK_THAT(message([](auto& r) { r.mutable_facts()->set_schema("ptx/9"); }),
             StartsWith("facts:"));
  CHECK_THAT(message([](auto& r) { r.mutable_facts()->set_values(0, std::nan("")); }),
             StartsWith("facts:"));
  CHECK_THAT(message([](auto& r) { r.mutable_reference_facts()->clear_values(); }),
             StartsWith("reference_facts:"));
  CHECK_THAT(message([](auto& r) { r.set_bin_scheme_id("thirds/1"); }),
             StartsWith("bin_scheme_id:"));
  CHECK_THAT(message([](auto& r) { r.set_baseline_speedup(-2); }), StartsWith("baseline_speedup:"));
  CHECK_THAT(message([](auto& r) { r.mutable_device()->set_model(std::string(129, 'x')); }),
             StartsWith("device.model:"));
  CHECK_THAT(
      message([](auto& r) { r.set_baseline_speedup(std::numeric_limits<double>::infinity()); }),
      StartsWith("baseline_speedup:"));
}

TEST_CASE("A candidate that was received before may be named by its id",
          "[forecaster][conversion]") {
  ReceivedCandidates received;
  v1::ForecastRequest request = GoodRequest();
  SentCandidates sent;
  const Candidate candidate = PlantedProblem().candidates()[3];
  sent.Add(candidate);
  *request.mutable_candidate() = sent.Write(candidate);
  REQUIRE(request.candidate().source().empty());
  const absl::Status unknown = FromProto(request, received).status();
  CHECK(absl::IsNotFound(unknown));
  CHECK_THAT(std::string(unknown.message()), StartsWith("candidate: candidate_id:"));

  v1::Label label = GoodLabel();
  REQUIRE(FromProto(label, received).ok());
  CHECK(FromProto(request, received)->candidate.source == candidate.source);
  *label.mutable_candidate() = request.candidate();
  CHECK(FromProto(label, received)->candidate.source == candidate.source);
  auto& anchor = *request.mutable_anchor();
  *anchor.mutable_candidate() = request.candidate();
  anchor.mutable_speedup()->set_value(2);
  CHECK(FromProto(request, received)->anchor->candidate.source == candidate.source);
  anchor.mutable_candidate()->set_candidate_id("k_0");
  CHECK_THAT(std::string(FromProto(request, received).status().message()),
             StartsWith("anchor.candidate: candidate_id:"));
}

TEST_CASE("Facts may be absent", "[forecaster][conversion]") {
  ReceivedCandidates received;
  v1::ForecastRequest request = GoodRequest();
  request.clear_facts();
  request.clear_reference_facts();
  CHECK(FromProto(request, received).ok());
}

TEST_CASE("Items to score need a prediction and a truth", "[forecaster][conversion]") {
  v1::ScoreItem item;
  item.set_true_bin(3);
  CHECK_THAT(std::string(FromProto(item).status().message()), StartsWith("prediction:"));
  item.set_answer("{}");
  CHECK(FromProto(item).ok());
  item.clear_truth();
  CHECK_THAT(std::string(FromProto(item).status().message()), StartsWith("truth:"));
  item.set_true_bin(4'000'000'000u);
  CHECK(std::get<TrueBin>(FromProto(item)->truth).bin > 8);
}

}  // namespace
}  // namespace kernelcast::forecaster
