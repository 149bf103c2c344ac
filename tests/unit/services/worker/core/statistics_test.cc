#include "services/worker/core/statistics.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "services/worker/core/random.h"

namespace kernelcast::worker {
namespace {

std::vector<double> Noisy(double centre, double relative_noise, int count, uint64_t seed) {
  Random random(seed);
  std::vector<double> values;
  for (int i = 0; i < count; ++i) {
    values.push_back(centre * (1 + relative_noise * random.Normal()));
  }
  return values;
}

Ratio Interval(const std::vector<double>& ratios) { return MedianInterval(ratios, 0.95, 1000); }

TEST_CASE("A summary of nothing is zeros and of one value is that value") {
  CHECK(Summarise({}, {}).samples == 0);
  CHECK(Summarise({}, {}).median_ns == 0);
  const TimeStatistics one = Summarise(std::vector<double>{5}, std::vector<double>{9});
  CHECK(one.median_ns == 5);
  CHECK(one.min_ns == 5);
  CHECK(one.quartile1_ns == 5);
  CHECK(one.quartile3_ns == 5);
  CHECK(one.cold_median_ns == 9);
  CHECK(one.samples == 1);
}

TEST_CASE("The bootstrap interval of a constant is that constant") {
  const Ratio ratio = Interval(std::vector<double>(20, 1.25));
  CHECK(ratio.value == 1.25);
  CHECK(ratio.low == Approx(1.25));
  CHECK(ratio.high == Approx(1.25));
  CHECK(ratio.confidence == 0.95);
}

TEST_CASE("The bootstrap of one value is that value and of none is empty") {
  const Ratio one = Interval({1.7});
  CHECK(one.value == Approx(1.7));
  CHECK(one.low == Approx(1.7));
  CHECK(one.high == Approx(1.7));
  CHECK(Interval({}).value == 0);
  CHECK(RelativeHalfWidth(Interval({})) == HUGE_VAL);
}

TEST_CASE("The bootstrap interval has about its stated coverage") {
  int covered = 0;
  constexpr int kTrials = 200;
  for (int trial = 0; trial < kTrials; ++trial) {
    const Ratio ratio = Interval(Noisy(1.25, 0.02, 25, 1000 + static_cast<uint64_t>(trial)));
    covered += ratio.low <= 1.25 && 1.25 <= ratio.high ? 1 : 0;
  }
  // The percentile interval of a median of 25 is somewhat wide.
  CHECK(covered >= 180);
  CHECK(covered <= 200);
}

TEST_CASE("A few outlying ratios barely move the value and the interval") {
  std::vector<double> ratios = Noisy(1.25, 0.01, 37, 3);
  ratios.insert(ratios.end(), {9.0, 0.1, 12.0});
  const Ratio ratio = Interval(ratios);
  CHECK(ratio.value == Approx(1.25).epsilon(0.01));
  CHECK(RelativeHalfWidth(ratio) < 0.01);
}

TEST_CASE("A bimodal sample has an interval that contains both modes") {
  std::vector<double> ratios = Noisy(1.0, 0.002, 20, 4);
  const std::vector<double> other = Noisy(1.1, 0.002, 20, 5);
  ratios.insert(ratios.end(), other.begin(), other.end());
  const Ratio ratio = Interval(ratios);
  CHECK(ratio.low < 1.01);
  CHECK(ratio.high > 1.09);
}

TEST_CASE("The same sample gives the same interval") {
  const std::vector<double> ratios = Noisy(1.25, 0.05, 30, 11);
  CHECK(Interval(ratios).low == Interval(ratios).low);
  CHECK(Interval(ratios).high == Interval(ratios).high);
}

TEST_CASE("The comparison depends on the interval alone") {
  CHECK(Compare({1.3, 1.2, 1.4, 0.95}, 0.02) == Comparison::kFaster);
  CHECK(Compare({0.8, 0.7, 0.9, 0.95}, 0.02) == Comparison::kSlower);
  CHECK(Compare({1.0, 0.99, 1.01, 0.95}, 0.02) == Comparison::kSame);
  // Significantly faster, but by less than the threshold.
  CHECK(Compare({1.01, 1.005, 1.015, 0.95}, 0.02) == Comparison::kSame);
  CHECK(Compare({1.05, 0.95, 1.15, 0.95}, 0.02) == Comparison::kAmbiguous);
  CHECK(Compare({0, 0, 0, 0.95}, 0.02) == Comparison::kAmbiguous);
  CHECK(Compare({1.03, 1.005, 1.05, 0.95}, 0.02) == Comparison::kFaster);
}

TEST_CASE("Noise has plateaued when more groups no longer narrow the interval") {
  std::vector<double> shrinking;
  for (int i = 1; i <= 40; ++i) {
    shrinking.push_back(1 / std::sqrt(i));
  }
  CHECK_FALSE(HasPlateaued(shrinking, 16));
  CHECK(HasPlateaued(std::vector<double>(40, 0.03), 16));
  CHECK_FALSE(HasPlateaued(std::vector<double>(16, 0.03), 16));
  const double infinity = std::numeric_limits<double>::infinity();
  CHECK_FALSE(HasPlateaued(std::vector<double>(40, infinity), 16));
  CHECK_FALSE(HasPlateaued({}, 16));
}

TEST_CASE("A kernel that is slow only on new values looks like a caching one") {
  const std::vector<double> fast = Noisy(10'000, 0.01, 100, 12);
  const std::vector<double> slow = Noisy(60'000, 0.01, 8, 13);
  const std::vector<double> fresh = Noisy(10'400, 0.02, 8, 14);
  const std::vector<double> reference = Noisy(100'000, 0.01, 100, 15);
  const std::vector<double> reference_fresh = Noisy(101'000, 0.01, 8, 16);
  CHECK(LooksCached(fast, slow, reference, reference_fresh, 1.5));
  CHECK_FALSE(LooksCached(fast, fresh, reference, reference_fresh, 1.5));
  // The reference slows down as much: new values are slow for everybody.
  CHECK_FALSE(LooksCached(fast, slow, reference, Noisy(600'000, 0.01, 8, 17), 1.5));
  // A few slow calls among fast ones come from the machine.
  std::vector<double> mixed = Noisy(10'000, 0.01, 5, 18);
  mixed.insert(mixed.end(), {90'000, 90'000, 90'000});
  CHECK_FALSE(LooksCached(fast, mixed, reference, reference_fresh, 1.5));
  // All the work is in the first call.
  std::vector<double> batched = Noisy(10'000, 0.01, 7, 19);
  batched.insert(batched.begin(), 800'000);
  CHECK(LooksCached(fast, batched, reference, reference_fresh, 1.5));
  // The first call woke the process.
  batched[0] = 150'000;
  CHECK_FALSE(LooksCached(fast, batched, reference, reference_fresh, 1.5));
  CHECK_FALSE(LooksCached({}, slow, reference, reference_fresh, 1.5));
}

}  // namespace
}  // namespace kernelcast::worker
