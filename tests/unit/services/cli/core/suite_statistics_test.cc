#include "services/cli/core/suite_statistics.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <set>
#include <string_view>

namespace kernelcast::cli::suite_statistics_test {
namespace {

// An interval by a factor to both sides.
Ratio Speedup(double value, double factor = 1.1) {
  return {.value = value, .low = value / factor, .high = value * factor, .confidence = 0.95};
}

JudgedSpeedup Correct(double value) { return {true, Speedup(value)}; }

TEST_CASE("fast_p is the share of tasks with a correct candidate above p", "[unit]") {
  const JudgedTasks tasks = {
      {Correct(1.2)}, {Correct(0.8), Correct(2.5)}, {{false, Speedup(9)}}, {}};
  const auto check = [&](double p, double mean, double best) {
    INFO(p);
    const FastP fast = FastPOf(p, tasks);
    CHECK(fast.mean == Approx(mean));
    CHECK(fast.best == Approx(best));
  };
  check(0, 2.0 / 4, 2.0 / 4);
  check(1, 1.5 / 4, 2.0 / 4);
  check(1.5, 0.5 / 4, 1.0 / 4);
  check(2, 0.5 / 4, 1.0 / 4);
  // As KernelBench: more than p times as fast.
  CHECK(FastPOf(1, {{Correct(1)}}).best == 0);
  // A candidate that was only checked is correct, and not fast.
  CHECK(FastPOf(0, {{{true, {}}}}).best == 1);
  CHECK(FastPOf(1, {{{true, {}}}}).best == 0);
  CHECK(std::isnan(FastPOf(0, {}).best));
}

TEST_CASE("The mean speedup is geometric, over the fastest correct candidate of each task",
          "[unit]") {
  const MeanSpeedup mean = MeanSpeedupOf(
      {{Correct(1)}, {Correct(0.5), Correct(2), {false, Speedup(8)}}, {Correct(4)}, {}});
  CHECK(mean.tasks == 3);
  CHECK(mean.value == Approx(2));
  // 2 * exp(-+4.30265 * ln 2 / sqrt 3), with the t quantile of two degrees of freedom.
  CHECK(mean.low == Approx(0.3574621).epsilon(1e-5));
  CHECK(mean.high == Approx(11.189997).epsilon(1e-5));
  // Three errors of ln 1.1, in the mean of three.
  CHECK(mean.noise_low == Approx(2 / std::pow(1.1, 1 / std::sqrt(3.0))));
  CHECK(mean.noise_high == Approx(2 * std::pow(1.1, 1 / std::sqrt(3.0))));

  const MeanSpeedup one = MeanSpeedupOf({{Correct(3)}});
  CHECK(one.value == Approx(3));
  CHECK(std::isnan(one.low));
  CHECK(one.noise_high == Approx(3.3));
  CHECK(MeanSpeedupOf({{}, {{false, {}}}}).tasks == 0);
}

TEST_CASE("A change has the interval of the true ratio", "[unit]") {
  // An interval of a measurement is wider by the square root of 2, for a later measurement.
  const SpeedChange change = SpeedChangeOf(Speedup(1), Speedup(1.2));
  CHECK(change.ratio.value == Approx(1.2));
  CHECK(change.ratio.low == Approx(1.2 / 1.1));
  CHECK(change.ratio.high == Approx(1.2 * 1.1));
  // ln 1.2 / ln 1.1 * 1.96 = 3.75 standard deviations.
  CHECK(change.probability == Approx(1.77349e-4).epsilon(1e-3));
  CHECK(SpeedChangeOf(Speedup(1.2), Speedup(1)).probability == Approx(change.probability));
  CHECK(SpeedChangeOf(Speedup(2), Speedup(2)).probability == 1);
  CHECK(SpeedChangeOf(Ratio(), Speedup(2)).ratio.value == 0);
}

TEST_CASE("More changes need more evidence each", "[unit]") {
  const SpeedChange likely = SpeedChangeOf(Speedup(1), Speedup(1.13));  // p = 0.012
  const SpeedChange sure = SpeedChangeOf(Speedup(1), Speedup(1.5));     // p < 1e-15
  const SpeedChange nothing = SpeedChangeOf(Speedup(1), Speedup(1.01));
  REQUIRE(likely.probability < 0.05);
  REQUIRE(likely.probability > 0.05 / 10);
  CHECK(BeyondNoise(std::vector{likely}) == std::vector{true});
  std::vector<SpeedChange> changes(9, nothing);
  changes.push_back(likely);
  changes.push_back(sure);
  std::vector<bool> expected(11, false);
  expected[10] = true;
  CHECK(BeyondNoise(changes) == expected);
  CHECK(BeyondNoise(std::vector{sure}, 0.6) == std::vector{false});
  CHECK(BeyondNoise(std::vector{sure}, 0.4) == std::vector{true});
  CHECK(BeyondNoise({}).empty());
}

TEST_CASE("Verdicts have distinct names, and are correct, failures or open", "[unit]") {
  std::set<std::string_view> names;
  for (const SuiteVerdict verdict : kSuiteVerdicts) {
    CHECK(names.insert(Name(verdict)).second);
    const bool pruned = verdict == SuiteVerdict::kPruned;
    CHECK(IsCorrect(verdict) + IsFailure(verdict) + IsOpen(verdict) == (pruned ? 0 : 1));
  }
}

}  // namespace
}  // namespace kernelcast::cli::suite_statistics_test
