#include "services/cli/report/eval_html.h"

#include <catch2/catch.hpp>
#include <cmath>

namespace kernelcast::cli {
namespace {

using Catch::Matchers::Contains;

ForecastEvaluation Evaluation(int count) {
  std::vector<ForecastOutcome> outcomes;
  for (int i = 0; i < count; ++i) {
    ForecastOutcome& outcome = outcomes.emplace_back();
    outcome.forecast.bin_probabilities.assign(8, 0.05);
    outcome.forecast.bin_probabilities[static_cast<size_t>(i % 8)] = 0.65;
    outcome.forecast.expected_log2_speedup = (i * 5 % 16 - 8) / 3.0;
    outcome.speedup = std::exp2((i % 16 - 8) / 3.0);
  }
  EvaluationOptions options;
  options.max_resamples = 40;
  return *EvaluateForecasts(outcomes, options);
}

TEST_CASE("The evaluation page has every figure and the three charts") {
  const std::string page = RenderEvaluation({{"pack one", Evaluation(64)}}, "kernelcast 1", 0);
  for (const EvaluatedMetric& metric : EvaluatedMetrics()) CHECK_THAT(page, Contains(metric.name));
  for (const char* label : {"Reliability of forecasts", "Risk against coverage",
                            "Best found against the share measured"}) {
    CHECK_THAT(page, Contains(std::string("aria-label=\"") + label + "\""));
  }
  CHECK_THAT(page, Contains("default-src 'none'"));
  CHECK_THAT(page, !Contains("<script"));
  CHECK_THAT(page, !Contains("nan"));
}

TEST_CASE("File names do not become markup, and small pools have no curve") {
  const std::string page =
      RenderEvaluation({{"<script>alert(1)</script>", Evaluation(3)}}, "kernelcast 1", 0);
  CHECK_THAT(page, !Contains("<script"));
  CHECK_THAT(page, Contains("&lt;script&gt;"));
  CHECK_THAT(page, !Contains("Best found against"));
}

}  // namespace
}  // namespace kernelcast::cli
