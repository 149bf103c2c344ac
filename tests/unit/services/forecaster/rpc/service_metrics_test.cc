#include "services/forecaster/rpc/service_metrics.h"

#include <catch2/catch.hpp>
#include <string>

#include "common/domain/bins.h"
#include "tests/unit/services/forecaster/planted_problem.h"

namespace kernelcast::forecaster {
namespace {

using Catch::Matchers::Contains;

Forecast InBin(int bin, double p) {
  Forecast forecast;
  forecast.backend = "embedded";
  forecast.bin_probabilities.assign(8, (1 - p) / 7);
  forecast.bin_probabilities[bin - 1] = p;
  forecast.predicted_bin = bin;
  forecast.stddev_log2_speedup = 0.5;
  return forecast;
}

TEST_CASE("Every label combination exists from the start", "[forecaster][metrics]") {
  MetricsRegistry registry;
  const ServiceMetrics metrics(registry, {"embedded"});
  const std::string text = registry.Text();
  for (const char* line : {
           "kernelcast_forecaster_labels_total{outcome=\"wrong_result\",target=\"cpu\"} 0",
           "kernelcast_forecaster_labels_total{outcome=\"ok\",target=\"gpu\"} 0",
           "kernelcast_forecaster_calibration_outcomes_total{bucket=\"0.9-1.0\",outcome=\"miss\","
           "target=\"gpu\"} 0",
           "kernelcast_forecaster_calibration_probability_total{bucket=\"0.0-0.1\",target=\"cpu\"} "
           "0",
           "kernelcast_forecaster_forecast_duration_seconds_count{backend=\"embedded\"} 0",
           "kernelcast_forecaster_brier_score_count{backend=\"embedded\",target=\"cpu\"} 0",
           "kernelcast_forecaster_forecast_confidence_count{backend=\"other\",target=\"gpu\"} 0",
           "kernelcast_forecaster_crps_score_sum{backend=\"embedded\",target=\"gpu\"} 0",
           "kernelcast_forecaster_pending_writes 0",
       }) {
    CHECK_THAT(text, Contains(line));
  }
}

TEST_CASE("A label shows whether its forecast was right", "[forecaster][metrics]") {
  const PlantedProblem problem;
  MetricsRegistry registry;
  ServiceMetrics metrics(registry, {"embedded"});
  Label label = problem.MakeLabel(0);
  label.truth = Ratio{1.2, 1.19, 1.21, 0.95};
  label.forecast = InBin(5, 0.65);
  metrics.Observed(label, true);
  label.forecast = InBin(6, 0.7);
  metrics.Observed(label, true);
  const std::string text = registry.Text();
  CHECK_THAT(text, Contains("calibration_outcomes_total{bucket=\"0.6-0.7\",outcome=\"hit\","
                            "target=\"cpu\"} 1"));
  CHECK_THAT(text, Contains("calibration_outcomes_total{bucket=\"0.6-0.7\",outcome=\"miss\","
                            "target=\"cpu\"} 1"));
  CHECK_THAT(text,
             Contains("calibration_probability_total{bucket=\"0.6-0.7\",target=\"cpu\"} 1.35"));
  CHECK_THAT(text, Contains("brier_score_count{backend=\"embedded\",target=\"cpu\"} 2"));
  CHECK_THAT(text, Contains("labels_total{outcome=\"ok\",target=\"cpu\"} 2"));
}

TEST_CASE("Confidence is counted for its backend", "[forecaster][metrics]") {
  MetricsRegistry registry;
  ServiceMetrics metrics(registry, {"embedded"});
  Forecast forecast = InBin(3, 0.85);
  metrics.Confident("h200", forecast);
  forecast.backend = "somebody";
  metrics.Confident("cpu", forecast);
  const std::string text = registry.Text();
  CHECK_THAT(text, Contains("confidence_bucket{backend=\"embedded\",target=\"gpu\",le=\"0.8\"} 0"));
  CHECK_THAT(text, Contains("confidence_bucket{backend=\"embedded\",target=\"gpu\",le=\"0.9\"} 1"));
  CHECK_THAT(text, Contains("confidence_count{backend=\"other\",target=\"cpu\"} 1"));
}

TEST_CASE("A forecast against another baseline is not scored", "[forecaster][metrics]") {
  const PlantedProblem problem;
  MetricsRegistry registry;
  ServiceMetrics metrics(registry, {"embedded"});
  Label label = problem.MakeLabel(0);
  label.forecast = InBin(5, 0.65);
  metrics.Observed(label, false);
  label.forecast->bin_probabilities.pop_back();
  metrics.Observed(label, true);
  label = problem.MakeFailure(0, FailureKind::kExploit);
  label.candidate.target = "h100";
  metrics.Observed(label, true);
  const std::string text = registry.Text();
  CHECK_THAT(text, Contains("brier_score_count{backend=\"embedded\",target=\"cpu\"} 0"));
  CHECK_THAT(text, Contains("labels_total{outcome=\"exploit\",target=\"gpu\"} 1"));
}

}  // namespace
}  // namespace kernelcast::forecaster
