// Verification outcomes of the example problems' template spaces on this GPU.
#include "common/domain/expected_verdicts.h"

#include <catch2/catch.hpp>
#include <cstdio>
#include <vector>

#include "tests/gpu/gpu_fixture.h"
#include "tests/support/verdict_trials.h"

namespace kernelcast::testing {
namespace {

// The times are not used.
worker::MeasureOptions Quick() {
  worker::MeasureOptions options = worker::CudaMeasureOptions();
  options.screen.half_width = 1;
  options.screen.min_time_ns = 1'000'000;
  options.warm_up_ns = 1'000'000;
  return options;
}

TEST_CASE("Points of the CUDA template spaces get their expected verdicts") {
  KERNELCAST_NEEDS_GPU();
  const auto folder = GENERATE(from_range(ProblemsWithVerdicts(kCudaTargetName)));
  GpuFixture fixture(folder, Quick());
  const Space& space = *fixture.problem().targets.find(kCudaTargetName)->second.space;
  const auto verdicts = ReadExpectedVerdicts(SourcePath(folder), space);
  INFO(verdicts.status().ToString());
  REQUIRE(verdicts.ok());
  REQUIRE(verdicts->has_value());
  const std::vector<VerdictTrial> trials = VerdictTrials(fixture.problem(), space, **verdicts, 3);
  for (const VerdictTrial& trial : trials) {
    INFO(trial.description << ": expected " << Name(trial.expected));
    const Measurement measurement = fixture.Measure(trial.candidate);
    INFO(MeasurementFeedback(measurement));
    CHECK(Satisfies(trial.expected, OutcomeName(measurement.outcome)));
  }
  std::printf("%s: %zu points tried\n", folder.c_str(), trials.size());
}

}  // namespace
}  // namespace kernelcast::testing
