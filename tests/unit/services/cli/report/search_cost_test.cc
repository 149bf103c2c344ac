#include "services/cli/report/search_cost.h"

#include <catch2/catch.hpp>
#include <vector>

#include "common/convert/convert.h"
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

TEST_CASE("A search's curve has each improvement at its device seconds", "[cli][report]") {
  ReportInput input = Three();
  // Slower than the best before it.
  input.candidates.push_back(MeasuredCandidate("d", 1.8));
  input.candidates.back().measurement->device_time_ns = 250'000'000;
  const SearchCurve curve = CurveOf(input);
  REQUIRE(curve.steps.size() == 2);
  CHECK(curve.steps[0].device_seconds == Approx(0.25));
  CHECK(curve.steps[0].speedup == 1.5);
  CHECK(curve.steps[1].device_seconds == Approx(0.5));
  CHECK(curve.steps[1].speedup == 2);
  CHECK(curve.device_seconds == Approx(0.75));
  CHECK(curve.measured == 3);
  CHECK(curve.pruned == 1);
  CHECK(CurveOf(ReportInput()).steps.empty());
}

TEST_CASE("Unstable attempts cost device time", "[cli][report]") {
  ReportInput input = Three();
  input.candidates[0].unstable_seconds = 2;
  input.candidates[0].unstable_preparing_seconds = 0.5;
  CHECK(DeviceSecondsSoFar(input, Analyze(input)) == std::vector<double>{2.25, 2.25, 2.5});
  const ReportCounts counts = Analyze(input).counts;
  CHECK(counts.device_seconds_spent == Approx(2.5));
  CHECK(counts.device_seconds_preparing == Approx(0.5));
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

TEST_CASE("A search has used all of its device time and tokens, each once", "[cli][report]") {
  ReportInput input = Three();
  v1::SearchCounts& counts = *input.search.emplace().mutable_counts();
  // 0.5 s of screenings, the rest preparation and confirmations, which are no candidates.
  *counts.mutable_device_time_spent() = DurationToProto(2'000'000'000);
  *counts.mutable_device_time_preparing() = DurationToProto(1'000'000'000);
  *counts.mutable_device_time_confirming() = DurationToProto(500'000'000);
  *counts.mutable_device_time_avoided() = DurationToProto(3'000'000'000);
  counts.mutable_generation()->set_cost(0.25);
  counts.mutable_model_use()->mutable_token_usage()->set_cost_dollars(0.5);
  *counts.mutable_unpriced_tokens() = ToProto(TokenUsage{100, 10, 50, 0});
  // The last answer came after the last candidate.
  input.token_spends = {{9'000'000'000, 150}};
  const SearchUsage usage = UsageOf(input, Analyze(input));
  CHECK(usage.device_seconds == Approx(2));
  CHECK(usage.avoided_device_seconds == Approx(3));
  CHECK(usage.token_cost == Approx(0.75));
  CHECK(usage.unpriced_tokens == TokenUsage{100, 10, 50, 0});
}

TEST_CASE("Records without their search have used the tokens of forecasts", "[cli][report]") {
  ReportInput input = Three();
  input.candidates[0].forecast->token_usage = {10, 4, 5, 0};
  input.candidates[1].forecast->token_usage = {10, 4, 5, 0.5};
  input.candidates[2].forecast->token_usage = {1, 0, 2, 0};
  SearchUsage usage = UsageOf(input, Analyze(input));
  CHECK(usage.device_seconds == Approx(0.5));
  CHECK(usage.token_cost == Approx(0.5));
  CHECK(usage.unpriced_tokens == TokenUsage{11, 4, 7, 0});
  // An earlier evaluation paid for a reused measurement.
  input.candidates[2].reused = true;
  usage = UsageOf(input, Analyze(input));
  CHECK(usage.unpriced_tokens == TokenUsage{10, 4, 5, 0});
}

}  // namespace
}  // namespace kernelcast::cli
