#include "services/orchestrator/core/next_measurement.h"

#include <catch2/catch.hpp>
#include <vector>

namespace kernelcast::orchestrator {
namespace {

Forecast Of(double log2_speedup, double deviation, double failure = 0.1) {
  Forecast forecast;
  forecast.expected_log2_speedup = log2_speedup;
  forecast.stddev_log2_speedup = deviation;
  forecast.failure_probability = failure;
  return forecast;
}

std::optional<size_t> Choose(const std::vector<Forecast>& forecasts, double incumbent) {
  std::vector<const Forecast*> pointers;
  for (const Forecast& forecast : forecasts) pointers.push_back(&forecast);
  return ChooseNext(pointers, incumbent);
}

TEST_CASE("Among equally sure forecasts the fastest is measured next") {
  CHECK(Choose({Of(0.2, 0.3), Of(1.1, 0.3), Of(-1, 0.3)}, 1) == 1);
}

TEST_CASE("Beyond the incumbent uncertainty may promise more") {
  // Both are expected to be below a speedup of 4; the first could be faster.
  CHECK(Choose({Of(1.5, 1.0), Of(1.8, 0.05)}, 4) == 0);
  CHECK(Choose({Of(1.5, 1.0), Of(1.8, 0.05)}, 1) == 1);
}

TEST_CASE("A likely failure promises little") {
  CHECK(Choose({Of(1.2, 0.3, 0.95), Of(1.0, 0.3, 0.05)}, 1) == 1);
}

TEST_CASE("With nothing allowed nothing is chosen") {
  CHECK_FALSE(ChooseNext({}, 1).has_value());
  const std::vector<const Forecast*> none = {nullptr, nullptr};
  CHECK_FALSE(ChooseNext(none, 1).has_value());
  const Forecast slow = Of(-20, 0.01);
  const std::vector<const Forecast*> last = {nullptr, &slow};
  CHECK(ChooseNext(last, 8) == 1);
}

TEST_CASE("Forecasts as wide as the prior are not informed") {
  CHECK_FALSE(IsInformed(Of(0, 2.25)));
  CHECK_FALSE(IsInformed(Of(1.5, 1.6)));
  CHECK(IsInformed(Of(0.4, 0.5)));
  CHECK(IsInformed(Of(-5, 3)));
}

}  // namespace
}  // namespace kernelcast::orchestrator
