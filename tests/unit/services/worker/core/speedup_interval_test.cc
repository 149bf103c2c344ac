#include "services/worker/core/speedup_interval.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "services/worker/core/random.h"

namespace kernelcast::worker {
namespace {

constexpr SpreadOptions kOptions{.runner_deviation = 0.01,
                                 .sitting_deviation = 0.002,
                                 .state_deviation = 0.1,
                                 .state_degrees = 10,
                                 .state_share = 0.5,
                                 .device_degrees = 10,
                                 .problem_degrees = 8,
                                 .kernel_degrees = 4};

constexpr Spread kSpread{.runner = 0.01 * 0.01, .sitting = 0.002 * 0.002};

double HalfWidth(const Ratio& ratio) { return std::log(ratio.high / ratio.value); }

TEST_CASE("Student-t quantiles match the tables") {
  const double infinity = std::numeric_limits<double>::infinity();
  CHECK(TwoSidedQuantile(0.95, infinity) == Approx(1.95996).epsilon(1e-4));
  CHECK(TwoSidedQuantile(0.95, 4) == Approx(2.77645).epsilon(1e-4));
  CHECK(TwoSidedQuantile(0.95, 8) == Approx(2.30600).epsilon(1e-4));
  CHECK(TwoSidedQuantile(0.99, 3) == Approx(5.84091).epsilon(1e-4));
}

TEST_CASE("One runner's interval doubles the variance of its noise, spread and sitting") {
  const RunnerValue runner{std::log(1.5), 0.003 * 0.003};
  const Ratio ratio = SpeedupInterval({&runner, 1}, kSpread, kOptions, 0.95);
  CHECK(ratio.value == Approx(1.5));
  CHECK(ratio.confidence == 0.95);
  CHECK(ratio.within_deviation == Approx(0.003));
  CHECK(ratio.between_deviation == Approx(std::sqrt(0.01 * 0.01 + 0.002 * 0.002)));
  // sqrt(2 (1.95996^2 0.003^2 + 2.77645^2 0.01^2 + 1.95996^2 0.002^2))
  CHECK(HalfWidth(ratio) == Approx(0.0405166).epsilon(1e-4));
  CHECK(std::log(ratio.value / ratio.low) == Approx(HalfWidth(ratio)));
}

TEST_CASE("One runner's interval assumes a minimum spread") {
  const RunnerValue runner{0, 0};
  CHECK(HalfWidth(SpeedupInterval({&runner, 1}, {.runner = 1e-8}, kOptions, 0.95)) ==
        Approx(HalfWidth(SpeedupInterval({&runner, 1}, {.runner = 1e-4}, kOptions, 0.95))));
  CHECK(HalfWidth(SpeedupInterval({&runner, 1}, {.runner = 4e-4}, kOptions, 0.95)) >
        1.9 * HalfWidth(SpeedupInterval({&runner, 1}, {.runner = 1e-4}, kOptions, 0.95)));
}

TEST_CASE("Five runners use the mean of the middle three and their observed spread") {
  std::vector<RunnerValue> runners;
  for (const double percent : {-1.0, 0.0, 0.5, 1.0, 9.0}) runners.push_back({percent / 100, 0});
  const Ratio ratio = SpeedupInterval(runners, kSpread, kOptions, 0.95);
  CHECK(std::log(ratio.value) == Approx(0.005));
  // Mean 1.9%, squares 65.2e-4; (4 * 1e-4 + 65.2e-4) / 8 = 8.65e-4.
  CHECK(ratio.between_deviation == Approx(std::sqrt(8.65e-4 + 4e-6)));
  // sqrt(2 (2.30600^2 1.14 8.65e-4 / 5 + 1.95996^2 0.002^2))
  CHECK(HalfWidth(ratio) ==
        Approx(std::sqrt(2 * (5.317636 * 1.14 * 8.65e-4 / 5 + 3.841443 * 4e-6))).epsilon(1e-4));
}

TEST_CASE("Runners that agree by chance are not assumed to have no spread") {
  const std::vector<RunnerValue> alike(5, RunnerValue{0.1, 0});
  const Ratio ratio = SpeedupInterval(alike, kSpread, kOptions, 0.95);
  CHECK(ratio.between_deviation == Approx(std::sqrt(0.5e-4 + 4e-6)));
  CHECK(HalfWidth(ratio) > 0.005);
}

TEST_CASE("No runner gives no ratio") {
  CHECK(SpeedupInterval({}, kSpread, kOptions, 0.95).value == 0);
}

TEST_CASE("The spread starts at the prior and then follows the observations") {
  RunnerSpread spread(kOptions);
  CHECK(spread.Of("a").runner == Approx(1e-4));
  // Squares 2e-4 around 0, minus the noise of two degrees.
  const std::vector<double> runners = {-0.01, 0, 0.01};
  spread.Add("a", runners, 0.25e-4);
  const double device = (10 * 1e-4 + 1.5e-4) / 12;
  CHECK(spread.Of("b").runner == Approx(device));
  CHECK(spread.Of("a").runner == Approx((8 * device + 1.5e-4) / 10));
  // Noise larger than the observed spread gives zero, not a negative value.
  spread.Add("a", runners, 1);
  CHECK(spread.Of("b").runner == Approx((10 * 1e-4 + 1.5e-4) / 14));
  const std::vector<double> one = {0.5};
  spread.Add("a", one, 0);
  CHECK(spread.Of("b").runner == Approx((10 * 1e-4 + 1.5e-4) / 14));
}

TEST_CASE("The spread of a device is learnt whatever the prior is") {
  Random random(3);
  RunnerSpread spread(kOptions);
  for (int kernel = 0; kernel < 400; ++kernel) {
    std::vector<double> values;
    for (int i = 0; i < 5; ++i) values.push_back(0.03 * random.Normal());
    spread.Add(kernel % 2 == 0 ? "a" : "b", values, 0);
  }
  CHECK(std::sqrt(spread.Of("a").runner) == Approx(0.03).epsilon(0.08));
  CHECK(std::sqrt(spread.Of("new").runner) == Approx(0.03).epsilon(0.08));
}

TEST_CASE("The sitting is larger where the reference's time changes, and smaller otherwise") {
  RunnerSpread spread(kOptions);
  const auto sitting = [&] { return spread.Of("a").sitting; };
  const double before = sitting();
  CHECK(before == Approx(0.002 * 0.002 + 0.25 * 0.01));
  // The first time of a problem is uninformative.
  spread.AddReferenceTime("a", 3);
  CHECK(sitting() == before);
  spread.AddReferenceTime("a", 3.4);
  CHECK(sitting() == Approx(0.002 * 0.002 + 0.25 * (0.98 * 10 * 0.01 + 0.08) / (0.98 * 10 + 1)));
  spread.AddReferenceTime("b", 1);
  for (int i = 0; i < 1000; ++i) spread.AddReferenceTime("b", 1 + 0.01 * (i % 2));
  // Each changes by 0.01: a variance of half its square.
  CHECK(sitting() == Approx(0.002 * 0.002 + 0.25 * 0.5e-4).epsilon(0.01));
}

// Planted kernels measured twice, each with its own spread around the problem's: how often the
// first interval contains the other value.
struct Planted {
  int first_runners;
  int second_runners;
  double noise;
};

double Coverage(const Planted& planted) {
  constexpr int kKernels = 20'000;
  Random random(17);
  const auto measure = [&](int runners, double spread) {
    const double sitting = kOptions.sitting_deviation * random.Normal();
    std::vector<RunnerValue> values;
    for (int i = 0; i < runners; ++i) {
      values.push_back({0.3 + sitting + spread * random.Normal() + planted.noise * random.Normal(),
                        planted.noise * planted.noise});
    }
    return SpeedupInterval(values, kSpread, kOptions, 0.95);
  };
  int held = 0;
  for (int kernel = 0; kernel < kKernels; ++kernel) {
    double chi_squared = 0;
    for (int i = 0; i < static_cast<int>(kOptions.kernel_degrees); ++i) {
      const double normal = random.Normal();
      chi_squared += normal * normal;
    }
    const double spread = 0.01 * std::sqrt(kOptions.kernel_degrees / chi_squared);
    const Ratio first = measure(planted.first_runners, spread);
    const Ratio second = measure(planted.second_runners, spread);
    held += first.low <= second.value && second.value <= first.high ? 1 : 0;
  }
  return static_cast<double>(held) / kKernels;
}

TEST_CASE("Intervals contain a later measurement at their stated rate") {
  for (const double noise : {0.0, 0.004, 0.02}) {
    INFO("noise " << noise);
    const double screening = Coverage({1, 1, noise});
    CHECK(screening > 0.93);
    CHECK(screening < 0.975);
    const double final_level = Coverage({5, 5, noise});
    CHECK(final_level > 0.93);
    CHECK(final_level < 0.975);
    // A final measurement varies less than a screening.
    CHECK(Coverage({1, 5, noise}) > screening);
  }
}

}  // namespace
}  // namespace kernelcast::worker
