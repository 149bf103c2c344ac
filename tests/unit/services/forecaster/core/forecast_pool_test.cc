#include "services/forecaster/core/forecast_pool.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <vector>

namespace kernelcast::forecaster {
namespace {

Forecast Of(std::vector<double> probabilities, double failure = 0, double mean = 0,
            double deviation = 0) {
  Forecast forecast;
  forecast.bin_probabilities = std::move(probabilities);
  forecast.predicted_bin = ArgmaxBin(forecast.bin_probabilities);
  forecast.failure_probability = failure;
  forecast.expected_log2_speedup = mean;
  forecast.stddev_log2_speedup = deviation;
  return forecast;
}

TEST_CASE("A pool of two is their weighted mean", "[forecaster][pool]") {
  const Forecast a = Of({0, 0, 0, 1, 0, 0, 0, 0}, 0, -0.25, 0);
  const Forecast b = Of({0, 0, 0, 0, 0, 0.5, 0.5, 0}, 0, 1.0, 0.5);
  const auto pooled = LinearPool(std::vector<WeightedForecast>{{&a, 3}, {&b, 1}});
  REQUIRE(pooled.ok());
  CHECK_THAT(pooled->bin_probabilities,
             Catch::Approx(std::vector<double>{0, 0, 0, 0.75, 0, 0.125, 0.125, 0}));
  CHECK(pooled->predicted_bin == 4);
  CHECK(pooled->expected_log2_speedup == Approx(0.75 * -0.25 + 0.25 * 1));
  // E[X^2] = 0.75 * 0.0625 + 0.25 * 1.25, E[X] = 0.0625.
  CHECK(pooled->stddev_log2_speedup == Approx(std::sqrt(0.359375 - 0.0625 * 0.0625)));
}

TEST_CASE("Bins are weighted by each forecast's probability of correctness", "[forecaster][pool]") {
  const Forecast a = Of({1, 0, 0, 0, 0, 0, 0, 0}, 0.8);
  const Forecast b = Of({0, 0, 0, 0, 0, 0, 0, 1}, 0.2);
  const auto pooled = LinearPool(std::vector<WeightedForecast>{{&a, 1}, {&b, 1}});
  REQUIRE(pooled.ok());
  CHECK(pooled->failure_probability == Approx(0.5));
  // P(correct and bin 1) = 0.5 * 0.2, P(correct and bin 8) = 0.5 * 0.8.
  CHECK(pooled->bin_probabilities[0] == Approx(0.2));
  CHECK(pooled->bin_probabilities[7] == Approx(0.8));
}

TEST_CASE("A forecast certain of failure still has bins", "[forecaster][pool]") {
  const Forecast a = Of({1, 0, 0, 0, 0, 0, 0, 0}, 1);
  const Forecast b = Of({0, 0, 0, 0, 0, 0, 0, 1}, 1);
  const auto pooled = LinearPool(std::vector<WeightedForecast>{{&a, 1}, {&b, 3}});
  REQUIRE(pooled.ok());
  CHECK(pooled->failure_probability == 1);
  CHECK(pooled->bin_probabilities[7] == Approx(0.75));
  CHECK(ValidateForecast(*pooled).ok());
}

TEST_CASE("Usage is summed, health signals are kept, and names are the first's",
          "[forecaster][pool]") {
  Forecast a = Of({0, 0, 0, 1, 0, 0, 0, 0});
  a.token_usage = {100, 60, 20, 0.5};
  a.raw_probability_sum = 1.01;
  a.backend = "a";
  a.rationale = "first";
  Forecast b = Of({0, 0, 0, 1, 0, 0, 0, 0});
  b.token_usage = {100, 90, 30, 0.25};
  b.raw_probability_sum = 0.8;
  b.argmax_mismatch = true;
  b.backend = "b";
  const auto pooled = LinearPool(std::vector<WeightedForecast>{{&a, 1}, {&b, 1}});
  REQUIRE(pooled.ok());
  CHECK(pooled->token_usage.input_tokens == 200);
  CHECK(pooled->token_usage.cached_input_tokens == 150);
  CHECK(pooled->token_usage.output_tokens == 50);
  CHECK(pooled->token_usage.cost_dollars == Approx(0.75));
  CHECK(pooled->raw_probability_sum == 0.8);
  CHECK(pooled->argmax_mismatch);
  CHECK(pooled->backend == "a");
  CHECK(pooled->rationale == "first");
}

TEST_CASE("A pool of valid forecasts is valid for any weights", "[forecaster][pool]") {
  uint64_t state = 7;
  const auto draw = [&state] {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<double>(state >> 33) / static_cast<double>(uint64_t{1} << 31);
  };
  for (int round = 0; round < 500; ++round) {
    std::vector<Forecast> forecasts;
    std::vector<double> weights;
    double low = 1e9;
    double high = -1e9;
    for (int i = 0; i < 1 + round % 4; ++i) {
      std::vector<double> p(8);
      for (double& value : p) value = draw() < 0.3 ? 0 : draw();
      p[0] += 1e-3;
      REQUIRE(NormalizeSimplex(p).ok());
      forecasts.push_back(Of(std::move(p), draw() < 0.2 ? 1 : draw(), draw() * 4 - 2, draw() * 2));
      weights.push_back(draw() * 10 + 1e-9);
      low = std::min(low, forecasts.back().expected_log2_speedup);
      high = std::max(high, forecasts.back().expected_log2_speedup);
    }
    std::vector<WeightedForecast> entries;
    for (size_t i = 0; i < forecasts.size(); ++i) entries.push_back({&forecasts[i], weights[i]});
    const auto pooled = LinearPool(entries);
    REQUIRE(pooled.ok());
    CHECK(ValidateForecast(*pooled).ok());
    double sum = 0;
    for (const double p : pooled->bin_probabilities) sum += p;
    CHECK(sum == Approx(1).margin(1e-12));
    CHECK(pooled->expected_log2_speedup >= low - 1e-9);
    CHECK(pooled->expected_log2_speedup <= high + 1e-9);
  }
}

TEST_CASE("Forecasts that cannot be pooled are refused", "[forecaster][pool]") {
  const Forecast a = Of({0, 0, 0, 1, 0, 0, 0, 0});
  Forecast b = a;
  b.bin_scheme_id = std::string(BinScheme::kPaperFormulaId);
  const auto refused = [](std::vector<WeightedForecast> entries) {
    return absl::IsInvalidArgument(LinearPool(entries).status());
  };
  CHECK(refused({}));
  CHECK(refused({{&a, 1}, {&b, 1}}));
  CHECK(refused({{&a, 0}}));
  CHECK(refused({{&a, -1}, {&a, 2}}));
  CHECK(refused({{&a, NAN}}));
}

}  // namespace
}  // namespace kernelcast::forecaster
