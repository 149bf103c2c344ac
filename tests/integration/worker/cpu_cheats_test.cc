// Candidates whose outputs are right, but which cheat on the time, must gain nothing.

#include <catch2/catch.hpp>
#include <cstddef>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/worker/runner/control.h"
#include "tests/integration/worker/cpu_fixture.h"

namespace kernelcast::testing::cpu_cheats_test {
namespace {

using Defines = std::vector<std::pair<std::string, std::string>>;

CpuFixture& Shared() {
  static CpuFixture fixture;
  return fixture;
}

// Repeats the measurement while the machine is too noisy, as the orchestrator does.
// A busy machine can hide a cheat in an interval that is too wide to tell what is faster.
bool IsTooWide(const Measurement& measurement) {
  const auto* ok = std::get_if<MeasuredOk>(&measurement.outcome);
  return ok != nullptr && ok->speedup.low < 1 && ok->speedup.high > 2 * ok->speedup.low;
}

Measurement MeasureUntilStable(const Candidate& candidate,
                               MeasureLevel level = MeasureLevel::kScreen) {
  constexpr int kAttempts = 5;
  Measurement measurement;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    measurement = Shared().Measure(candidate, level);
    if (!std::holds_alternative<EnvironmentUnstable>(measurement.outcome) &&
        !IsTooWide(measurement)) {
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

void CheckRefused(const Measurement& measurement) {
  INFO(MeasurementFeedback(measurement));
  if (IsTooWide(measurement)) return CheckGainsNothing(measurement);
  REQUIRE(std::holds_alternative<Exploit>(measurement.outcome));
}

TEST_CASE("Work deferred to the next call is an exploit") { CheckRefused(MeasureCheat("DEFER")); }

TEST_CASE("Doing the work of several calls in one is an exploit") {
  CheckRefused(MeasureCheat("BATCH"));
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

TEST_CASE("Holding up the reference does not hide remembered results") {
  CheckGainsNothing(MeasureCheat("HOLD_UP"));
}

// No faster than a candidate that does the same work when it is called, within both intervals.
void CheckAsFastAs(const Measurement& honest, const Measurement& cheat) {
  INFO(MeasurementFeedback(cheat));
  // Where the machine holds up most calls, a slowdown after pauses stays unproved.
  if (std::holds_alternative<Exploit>(cheat.outcome) ||
      std::holds_alternative<EnvironmentUnstable>(cheat.outcome)) {
    return;
  }
  const auto* const ok = std::get_if<MeasuredOk>(&cheat.outcome);
  REQUIRE(ok != nullptr);
  CHECK(ok->speedup.low <= std::get<MeasuredOk>(honest.outcome).speedup.high);
}

Measurement MeasureServeLoop(const std::string& how, MeasureLevel level) {
  using Block = worker::runner::ControlBlock;
  const auto word = [](size_t offset) { return absl::StrCat(offset / 4); };
  return Shared().Measure(
      Shared().Load("serve_loop.cc", {{"HOW", how},
                                      {"AFTER", "60"},
                                      {"NOP", absl::StrCat(static_cast<int>(worker::runner::kNop))},
                                      {"RUN", absl::StrCat(static_cast<int>(worker::runner::kRun))},
                                      {"MARK", absl::StrCat(worker::runner::kMagic)},
                                      {"DONE_WORD", word(offsetof(Block, done_sequence))},
                                      {"STATUS_WORD", word(offsetof(Block, entry_status))},
                                      {"SLEEPS_WORD", word(offsetof(Block, runner_sleeps))},
                                      {"JUDGE_SLEEPS_WORD", word(offsetof(Block, judge_sleeps))},
                                      {"SEQUENCE_WORD", word(offsetof(Block, command_sequence))},
                                      {"COMMAND_WORD", word(offsetof(Block, command))},
                                      {"CASE_WORD", word(offsetof(Block, case_index))}}),
      level);
}

TEST_CASE("A candidate that serves the judge's commands itself gains nothing") {
  const Measurement honest = MeasureUntilStable(Shared().Load("vectorised.cc"));
  INFO(MeasurementFeedback(honest));
  REQUIRE(std::holds_alternative<MeasuredOk>(honest.outcome));
  CheckAsFastAs(honest, MeasureServeLoop("CHANGED_IN_EMPTY_CALLS", MeasureLevel::kScreen));
}

TEST_CASE("Work in any time that is not measured gains nothing", "[slow]") {
  const Measurement honest = MeasureUntilStable(Shared().Load("vectorised.cc"));
  INFO(MeasurementFeedback(honest));
  REQUIRE(std::holds_alternative<MeasuredOk>(honest.outcome));
  for (const char* how :
       {"ALL_IN_EMPTY_CALLS", "ALL_IN_REPEATED_EMPTY_CALLS", "AFTER_ANSWERS", "CLAIMS_TO_SLEEP"}) {
    INFO(how);
    CheckAsFastAs(honest, MeasureServeLoop(how, MeasureLevel::kScreen));
  }
}

TEST_CASE("A candidate that serves the judge's commands gains nothing at the final level",
          "[slow]") {
  const Measurement honest =
      MeasureUntilStable(Shared().Load("vectorised.cc"), MeasureLevel::kFinal);
  INFO(MeasurementFeedback(honest));
  REQUIRE(std::holds_alternative<MeasuredOk>(honest.outcome));
  for (const char* how : {"CHANGED_IN_EMPTY_CALLS", "ALL_IN_EMPTY_CALLS"}) {
    INFO(how);
    CheckAsFastAs(honest, MeasureServeLoop(how, MeasureLevel::kFinal));
  }
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
