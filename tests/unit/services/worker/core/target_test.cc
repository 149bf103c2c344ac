#include "services/worker/core/target.h"

#include <catch2/catch.hpp>
#include <variant>

namespace kernelcast::worker {
namespace {

// Does nothing; only its profile is requested.
class PlainTarget final : public Target {
 public:
  TargetInfo Describe() const override {
    TargetInfo info;
    info.target = "plain";
    return info;
  }
  absl::StatusOr<CompileResult> Compile(const CompileRequest&, const CancelToken&) override {
    return absl::UnimplementedError("");
  }
  absl::StatusOr<Artifact> Resolve(const Candidate&, const Artifact&) override {
    return absl::UnimplementedError("");
  }
  absl::StatusOr<Measurement> Measure(const MeasureRequest&, const CancelToken&) override {
    return absl::UnimplementedError("");
  }
};

Measurement OkMeasurement() {
  Measurement measurement;
  measurement.device_time_ns = 100;
  MeasuredOk ok;
  ok.shapes.resize(2);
  measurement.outcome = ok;
  return measurement;
}

const MeasuredOk& OkOf(const Measurement& measurement) {
  return std::get<MeasuredOk>(measurement.outcome);
}

TEST_CASE("A target without a profiler says so") {
  PlainTarget target;
  const auto profile = target.ProfileCandidate({{}, {}, {}}, CancelToken());
  CHECK(absl::IsUnimplemented(profile.status()));
  CHECK(profile.status().message() == "the plain target has no profiler");
}

TEST_CASE("A profile is stored with the times of its shapes and its duration is counted") {
  Measurement measurement = OkMeasurement();
  Profile profile;
  profile.shapes.resize(2);
  profile.shapes[1].warm_event_ns = 7;
  profile.device_time_ns = 23;
  AddProfile(profile, measurement);
  CHECK(measurement.device_time_ns == 123);
  REQUIRE(OkOf(measurement).shapes[0].profile);
  REQUIRE(OkOf(measurement).shapes[1].profile);
  CHECK(OkOf(measurement).shapes[1].profile->warm_event_ns == 7);
  CHECK(OkOf(measurement).environment.counters_unavailable_reason.empty());
}

TEST_CASE("A missing profile has a reason and changes nothing else") {
  Measurement measurement = OkMeasurement();
  Profile half;
  half.shapes.resize(1);
  half.unavailable_reason = "not permitted";
  AddProfile(half, measurement);
  CHECK(OkOf(measurement).shapes[0].profile);
  CHECK_FALSE(OkOf(measurement).shapes[1].profile);
  CHECK(OkOf(measurement).environment.counters_unavailable_reason == "not permitted");

  Measurement other = OkMeasurement();
  AddProfile(absl::UnavailableError("no device"), other);
  CHECK(OkOf(other).environment.counters_unavailable_reason == "no device");
  CHECK(other.device_time_ns == 100);

  Measurement wrong;
  wrong.outcome = WrongResult();
  AddProfile(half, wrong);
  CHECK(std::holds_alternative<WrongResult>(wrong.outcome));
}

}  // namespace
}  // namespace kernelcast::worker
