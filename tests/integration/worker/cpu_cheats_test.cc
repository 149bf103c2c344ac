// Candidates whose outputs are right, but which cheat on the time, must gain nothing.

#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tests/integration/worker/cpu_fixture.h"

namespace kernelcast::testing::cpu_cheats_test {
namespace {

using Defines = std::vector<std::pair<std::string, std::string>>;

CpuFixture& Shared() {
  static CpuFixture fixture;
  return fixture;
}

// Repeats the measurement while the machine is too noisy, as the orchestrator does.
Measurement MeasureUntilStable(const Candidate& candidate) {
  constexpr int kAttempts = 5;
  Measurement measurement;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    measurement = Shared().Measure(candidate, MeasureLevel::kScreen);
    if (!std::holds_alternative<EnvironmentUnstable>(measurement.outcome)) {
      break;
    }
  }
  return measurement;
}

Measurement MeasureCheat(const std::string& how, Defines defines = {}) {
  defines.insert(defines.begin(), {"HOW", how});
  return MeasureUntilStable(Shared().Load("budget_cheat.cc", defines));
}

// The candidates do the reference's work, partly in other calls: they are as fast, within noise.
constexpr double kHonestSpeedup = 1.3;

void CheckGainsNothing(const Measurement& measurement) {
  INFO(MeasurementFeedback(measurement));
  if (std::holds_alternative<Exploit>(measurement.outcome) ||
      std::holds_alternative<WrongResult>(measurement.outcome)) {
    return;
  }
  const auto* ok = std::get_if<MeasuredOk>(&measurement.outcome);
  REQUIRE(ok != nullptr);
  CHECK(ok->speedup.value < kHonestSpeedup);
}

void CheckConvicted(const Measurement& measurement) {
  INFO(MeasurementFeedback(measurement));
  REQUIRE(std::holds_alternative<Exploit>(measurement.outcome));
}

TEST_CASE("Work deferred to the next call is an exploit") { CheckConvicted(MeasureCheat("DEFER")); }

TEST_CASE("Doing the work of several calls in one is an exploit") {
  CheckConvicted(MeasureCheat("BATCH"));
  CheckGainsNothing(MeasureCheat("GROUPED"));
}

TEST_CASE("Remembered elements gain nothing at any added delay") {
  CheckGainsNothing(MeasureCheat("ELEMENTS", {{"WASTE_NS", "0"}}));
  CheckGainsNothing(MeasureCheat("ELEMENTS", {{"WASTE_NS", "60000"}}));
  CheckGainsNothing(MeasureCheat("ELEMENTS", {{"WASTE_NS", "150000"}}));
}

TEST_CASE("Slowness after pauses does not hide remembered results") {
  CheckGainsNothing(MeasureCheat("SLOW_AFTER_PAUSE"));
}

TEST_CASE("A candidate cannot read the previous candidate's outputs") {
  MeasureUntilStable(Shared().Load("vectorised.cc"));
  const Measurement measurement = MeasureCheat("LEFT_OVER");
  INFO(MeasurementFeedback(measurement));
  CHECK(std::holds_alternative<MeasuredOk>(measurement.outcome));
}

TEST_CASE("A kernel that is wrong at even widths is rejected") {
  const Measurement measurement = MeasureCheat("EVEN_WIDTH");
  INFO(MeasurementFeedback(measurement));
  REQUIRE(std::holds_alternative<WrongResult>(measurement.outcome));
}

}  // namespace
}  // namespace kernelcast::testing::cpu_cheats_test
