// Verification outcomes of the example problems' template spaces on the cpu target.
#include "common/domain/expected_verdicts.h"

#include <catch2/catch.hpp>
#include <string>
#include <variant>

#include "tests/integration/worker/cpu_fixture.h"
#include "tests/support/verdict_trials.h"

namespace kernelcast::testing {
namespace {

std::string Outcome(CpuFixture& fixture, const Candidate& candidate) {
  const worker::CancelToken cancel;
  auto compiled = fixture.target().Compile({fixture.problem(), &candidate}, cancel);
  INFO(compiled.status().ToString());
  REQUIRE(compiled.ok());
  const auto* const success = std::get_if<worker::CompileSuccess>(&compiled->result);
  if (success == nullptr) return "compile_error";
  // Repeats while the machine is too noisy. A wrong outcome is never repeated.
  constexpr int kAttempts = 12;
  for (int attempt = 1;; ++attempt) {
    auto measurement = fixture.target().Measure(
        {fixture.problem(), candidate, success->artifact, MeasureLevel::kScreen}, cancel);
    INFO(measurement.status().ToString());
    REQUIRE(measurement.ok());
    if (attempt < kAttempts && std::holds_alternative<EnvironmentUnstable>(measurement->outcome)) {
      continue;
    }
    UNSCOPED_INFO(MeasurementFeedback(*measurement));
    return std::string(OutcomeName(measurement->outcome));
  }
}

TEST_CASE("Points of the cpu template spaces get their expected verdicts", "[integration]") {
  const auto folder = GENERATE(from_range(ProblemsWithVerdicts(kCpuTargetName)));
  CpuFixture fixture(folder, [](worker::CpuTargetOptions& options) {
    // The times are not used.
    options.measure.screen = {.runners = 1,
                              .half_width = 1,
                              .block_ns = 1'000'000,
                              .min_samples = 1,
                              .min_time_ns = 1'000'000,
                              .min_groups = 1,
                              .cap_ns = 20'000'000};
    options.measure.warm_up_ns = 0;
    options.measure.warm_up_calls = 1;
    options.measure.unstable_half_width = 10;
    // The machine may be busy.
    options.measure.min_call_limit_ns = 60'000'000'000;
    options.measure.max_call_limit_ns = 60'000'000'000;
    options.measure.load_limit_ns = 60'000'000'000;
  });
  const Space& space = *fixture.problem().targets.find(kCpuTargetName)->second.space;
  const auto verdicts = ReadExpectedVerdicts(SourcePath(folder), space);
  INFO(verdicts.status().ToString());
  REQUIRE(verdicts.ok());
  REQUIRE(verdicts->has_value());
  for (const VerdictTrial& trial : VerdictTrials(fixture.problem(), space, **verdicts, 1)) {
    INFO(trial.description << ": expected " << Name(trial.expected));
    CHECK(Satisfies(trial.expected, Outcome(fixture, trial.candidate)));
  }
}

}  // namespace
}  // namespace kernelcast::testing
