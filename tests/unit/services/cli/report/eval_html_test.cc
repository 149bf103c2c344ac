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
  const std::string page = RenderEvaluation({{"pack one", Evaluation(64)}}, {}, "kernelcast 1", 0);
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
      RenderEvaluation({{"<script>alert(1)</script>", Evaluation(3)}}, {}, "kernelcast 1", 0);
  CHECK_THAT(page, !Contains("<script"));
  CHECK_THAT(page, Contains("&lt;script&gt;"));
  CHECK_THAT(page, !Contains("Best found against"));
  CHECK_THAT(page, !Contains("Best so far"));
}

TEST_CASE("The evaluation page draws what searches found, a line for each file") {
  std::vector<SearchCurve> curves(2);
  curves[0].line = "standard.jsonl";
  curves[1].line = "<b>filtered</b>";
  for (SearchCurve& curve : curves) {
    curve.steps = {{1, 1.5}, {30, 2}};
    curve.device_seconds = 40;
    curve.measured = 5;
  }
  curves[1].pruned = 15;
  const std::string page = RenderEvaluation({}, MeanCurves(curves, 40), "kernelcast 1", 0);
  CHECK_THAT(page, Contains("aria-label=\"Best so far against device seconds\"") &&
                       Contains("<path fill=none class=\"line selected\"") &&
                       Contains("<path fill=none class=\"line deferred\"") &&
                       Contains(">40</text>") && Contains("4.000 <small>[4.000, 4.000]") &&
                       Contains("&lt;b&gt;filtered"));
  CHECK_THAT(page, !Contains("<b>filtered") && !Contains("nan"));
}

}  // namespace
}  // namespace kernelcast::cli
