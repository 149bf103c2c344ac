#include "services/forecaster/core/anchoring.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>
#include <vector>

#include "services/forecaster/core/answer_parser.h"

namespace kernelcast::forecaster {
namespace {

const BinScheme& Scheme() { return BinScheme::Default(); }

Forecast Relative(std::vector<double> bins) {
  Forecast forecast;
  forecast.bin_probabilities = std::move(bins);
  SummarizeBins(Scheme(), forecast);
  return forecast;
}

TEST_CASE("Shifting bins by one keeps their sum", "[forecaster][anchoring]") {
  const std::vector<double> even = {0.1, 0.1, 0.1, 0.2, 0.2, 0.1, 0.1, 0.1};
  const std::vector<double> same = ShiftBins(Scheme(), even, 1);
  for (size_t i = 0; i < even.size(); ++i) CHECK(same[i] == Approx(even[i]));
  for (const double factor : {0.01, 0.3, 1.4, 2.0, 7.0, 400.0}) {
    const std::vector<double> shifted = ShiftBins(Scheme(), even, factor);
    CHECK(std::accumulate(shifted.begin(), shifted.end(), 0.0) == Approx(1));
  }
  // (1, sqrt 2] times sqrt 2 is (sqrt 2, 2].
  const std::vector<double> moved = ShiftBins(Scheme(), {0, 0, 0, 0, 1, 0, 0, 0}, std::sqrt(2.0));
  CHECK(moved[5] == Approx(1));
  // Everything close to a 7x kernel lies beyond 4x.
  CHECK(ShiftBins(Scheme(), {0, 0, 0, 0.5, 0.5, 0, 0, 0}, 7)[7] == Approx(1));
  CHECK(ShiftBins(Scheme(), {0, 0, 0, 0.5, 0.5, 0, 0, 0}, 1 / 64.0)[0] == Approx(1));
}

TEST_CASE("Beyond the last edge an anchored forecast distinguishes winners from losers",
          "[forecaster][anchoring]") {
  // Twice as fast as a 7x kernel, and half as fast.
  Forecast winner = Relative({0, 0, 0, 0, 0, 0.1, 0.9, 0});
  Forecast loser = Relative({0, 0.9, 0.1, 0, 0, 0, 0, 0});
  const ForecastAnchor anchor{"k", 7};
  RelativeToReference(Scheme(), anchor, winner);
  RelativeToReference(Scheme(), anchor, loser);
  CHECK(ValidateForecast(winner).ok());
  CHECK(ValidateForecast(loser).ok());
  REQUIRE(winner.anchor.has_value());
  CHECK(winner.anchor->speedup == 7);
  CHECK(winner.expected_log2_speedup == Approx(std::log2(7) + 1.425));
  CHECK(WinProbability(winner, 7 * 1.02).value() > 0.95);
  CHECK(WinProbability(loser, 7 * 1.02).value() < 0.05);
}

TEST_CASE("A forecast is blind where the incumbent lies beyond its range",
          "[forecaster][anchoring]") {
  Forecast fast = Relative({0, 0, 0, 0, 0, 0, 0.1, 0.9});
  CHECK_FALSE(IsBlindAt(Scheme(), fast, 1));
  CHECK_FALSE(IsBlindAt(Scheme(), fast, 3.5));
  CHECK(IsBlindAt(Scheme(), fast, 4));
  CHECK(IsBlindAt(Scheme(), fast, 7));
  // It cannot be that fast.
  CHECK_FALSE(IsBlindAt(Scheme(), Relative({0, 0, 0, 0.5, 0.5, 0, 0, 0}), 7));
  RelativeToReference(Scheme(), {"k", 7}, fast);
  CHECK_FALSE(IsBlindAt(Scheme(), fast, 14));
  CHECK(IsBlindAt(Scheme(), fast, 28));
}

}  // namespace
}  // namespace kernelcast::forecaster
