#include "services/cli/report/search_cost.h"

#include <catch2/catch.hpp>
#include <vector>

#include "tests/unit/services/cli/report/sample_report.h"

namespace kernelcast::cli {
namespace {

// Three candidates that are settled after 1, 2 and 3 seconds; the second was pruned.
ReportInput Three() {
  ReportInput input;
  input.candidates = {MeasuredCandidate("a", 1.5), PrunedCandidate("b"), MeasuredCandidate("c", 2)};
  int64_t time_ns = 0;
  for (ReportCandidate& candidate : input.candidates) {
    candidate.settled_ns = time_ns += 1'000'000'000;
    if (candidate.measurement) candidate.measurement->device_time_ns = 250'000'000;
  }
  return input;
}

TEST_CASE("Device seconds add up over measurements", "[cli][report]") {
  ReportInput input = Three();
  CHECK(DeviceSecondsSoFar(input, Analyze(input)) == std::vector<double>{0.25, 0.25, 0.5});
  // A measurement that was reused cost nothing.
  input.candidates[2].reused = true;
  CHECK(DeviceSecondsSoFar(input, Analyze(input)) == std::vector<double>{0.25, 0.25, 0.25});
}

TEST_CASE("Tokens are those of forecasts, kernels and critics until then", "[cli][report]") {
  ReportInput input = Three();
  for (ReportCandidate& candidate : input.candidates) candidate.forecast.reset();
  CHECK(TokensSoFar(input, Analyze(input)).empty());
  // In any order; the last one ended after the last candidate.
  input.token_spends = {{1'500'000'000, 100}, {500'000'000, 40}, {9'000'000'000, 7}};
  CHECK(TokensSoFar(input, Analyze(input)) == std::vector<double>{40, 140, 140});
  Forecast forecast;
  forecast.token_usage.input_tokens = 10;
  forecast.token_usage.output_tokens = 5;
  input.candidates[1].forecast = forecast;
  CHECK(TokensSoFar(input, Analyze(input)) == std::vector<double>{40, 155, 155});
}

}  // namespace
}  // namespace kernelcast::cli
