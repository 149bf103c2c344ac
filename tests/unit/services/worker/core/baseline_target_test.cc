#include "services/worker/core/baseline_target.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/domain/python_task.h"

namespace kernelcast::worker {
namespace {

using Catch::Contains;

const char* const kSource =
    "class Model(x):\n  0\ndef get_inputs():\n  0\ndef get_init_inputs():\n  0\n";

Problem MakeTask(const std::string& baseline) {
  return WithOptions(ParseProblem({{"task.py", kSource}}).value(), {.baseline = baseline}).value();
}

ShapeTiming Shape(double speedup, double eager, const std::string& no_graph_reason = "") {
  ShapeTiming shape;
  shape.candidate.median_ns = 1000 / speedup;
  shape.speedup = {.value = speedup, .low = speedup / 1.1, .high = speedup * 1.1};
  shape.eager.emplace();
  shape.eager->candidate.median_ns = 9000 / eager;
  shape.eager->speedup = {.value = eager, .low = eager / 1.2, .high = eager * 1.2};
  shape.eager->no_graph_reason = no_graph_reason;
  return shape;
}

MeasuredOk Ok(ShapeTiming shape) {
  MeasuredOk ok;
  ok.speedup = shape.speedup;
  ok.shapes = {std::move(shape)};
  return ok;
}

// The compiled reference is twice as fast as the reference, candidates three times.
class TaskTarget final : public Target {
 public:
  TargetInfo Describe() const override { return {}; }
  absl::StatusOr<CompileResult> Compile(const CompileRequest&, const CancelToken&) override {
    return CompileResult();
  }
  absl::StatusOr<Artifact> Resolve(const Candidate&, const Artifact& sent) override { return sent; }
  absl::StatusOr<Measurement> Measure(const MeasureRequest& request, const CancelToken&) override {
    Measurement measurement;
    measurement.target = "cpu";
    measurement.device_time_ns = 100;
    measurement.preparation_time_ns = 10;
    if (request.candidate.flags.empty()) {
      measurement.outcome = candidate;
      return measurement;
    }
    CHECK(request.candidate.source == kSource);
    CHECK(request.artifact.content == kSource);
    CHECK(request.artifact.architecture == "sm_90a");
    CHECK(request.spec == MeasureSpec(MeasureLevel::kFinal));
    CHECK(request.device == 2);
    ++baselines;
    if (!failure.ok()) return failure;
    measurement.outcome = compiled;
    return measurement;
  }

  MeasureOutcome candidate = Ok(Shape(3, 1.5));
  MeasureOutcome compiled = Ok(Shape(2, 1.25));
  absl::Status failure;
  int baselines = 0;
};

struct Site {
  explicit Site(const std::string& baseline) : problem(MakeTask(baseline)) {}

  Measurement Measure() {
    Candidate candidate;
    candidate.source = "candidate";
    Artifact artifact;
    artifact.content = "candidate";
    artifact.architecture = "sm_90a";
    return target
        .Measure({problem, candidate, artifact, MeasureSpec(MeasureLevel::kFinal, 0.5), 2},
                 CancelToken())
        .value();
  }
  CompiledBaseline Compiled() { return std::get<MeasuredOk>(Measure().outcome).compiled.value(); }

  Problem problem;
  TaskTarget* inner = new TaskTarget;
  BaselineTarget target{std::unique_ptr<Target>(inner)};
};

TEST_CASE("A candidate is also compared with the compiled reference, which is measured once") {
  Site site("compile");
  const Measurement first = site.Measure();
  CHECK(first.device_time_ns == 200);
  CHECK(first.preparation_time_ns == 110);
  const CompiledBaseline compiled = std::get<MeasuredOk>(first.outcome).compiled.value();
  CHECK(compiled.unavailable_reason.empty());
  CHECK_FALSE(compiled.eager);
  CHECK(compiled.speedup.value == Approx(1.5));
  // Two errors of 10% make one of 14%.
  CHECK(compiled.speedup.high == Approx(1.5 * std::pow(1.1, std::sqrt(2.0))));
  CHECK(compiled.speedup.low == Approx(1.5 / std::pow(1.1, std::sqrt(2.0))));
  REQUIRE(compiled.references.size() == 1);
  CHECK(compiled.references[0].median_ns == Approx(500));
  const Measurement second = site.Measure();
  CHECK(second.device_time_ns == 100);
  CHECK(std::get<MeasuredOk>(second.outcome).compiled->speedup.value == Approx(1.5));
  CHECK(site.inner->baselines == 1);
}

TEST_CASE("Without graphs on both sides a candidate and the compiled reference compare eagerly") {
  Site site("compile");
  site.inner->compiled = Ok(Shape(2, 1.25, "a call of the candidate cannot be captured"));
  const CompiledBaseline compiled = site.Compiled();
  CHECK(compiled.eager);
  CHECK(compiled.speedup.value == Approx(1.2));
  CHECK(compiled.references.at(0).median_ns == Approx(7200));
}

TEST_CASE("A compiled reference that fails leaves the other figures and says why") {
  Site site("compile");
  Crash crash;
  crash.cause = Crash::Cause::kExit;
  crash.output_tail = "InductorError: no compiler\n";
  site.inner->compiled = crash;
  const Measurement measured = site.Measure();
  const auto& ok = std::get<MeasuredOk>(measured.outcome);
  CHECK(ok.speedup.value == 3);
  CHECK_THAT(ok.compiled->unavailable_reason, Contains("InductorError"));
  CHECK_THAT(MeasurementFeedback(measured), Contains("No figure against torch.compile"));
  // The verdict stays.
  (void)site.Measure();
  CHECK(site.inner->baselines == 1);
}

TEST_CASE("A compiled reference is measured again after what may pass") {
  Site site("compile");
  site.inner->failure = absl::UnavailableError("no process can be started");
  CHECK_THAT(site.Compiled().unavailable_reason, Contains("no process"));
  site.inner->failure = absl::OkStatus();
  site.inner->compiled = EnvironmentUnstable();
  CHECK_FALSE(site.Compiled().unavailable_reason.empty());
  site.inner->compiled = Ok(Shape(2, 1.25));
  CHECK(site.Compiled().speedup.value == Approx(1.5));
  CHECK(site.inner->baselines == 3);
}

TEST_CASE("Only right candidates of tasks that ask for it are compared with the compiled one") {
  Site eager("eager");
  CHECK_FALSE(std::get<MeasuredOk>(eager.Measure().outcome).compiled);
  Site wrong("compile");
  wrong.inner->candidate = WrongResult();
  CHECK(std::holds_alternative<WrongResult>(wrong.Measure().outcome));
  CHECK(eager.inner->baselines + wrong.inner->baselines == 0);
}

}  // namespace
}  // namespace kernelcast::worker
