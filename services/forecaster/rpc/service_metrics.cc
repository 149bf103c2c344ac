#include "services/forecaster/rpc/service_metrics.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/domain/bins.h"
#include "common/domain/scoring.h"

namespace kernelcast::forecaster {
namespace {

constexpr const char* kTargets[] = {"cpu", "gpu"};
constexpr FailureKind kFailures[] = {FailureKind::kCompileError, FailureKind::kWrongResult,
                                     FailureKind::kCrash, FailureKind::kTimeout,
                                     FailureKind::kExploit};

constexpr const char* kOtherBackend = "other";

std::string TargetLabel(const std::string& target) { return target == "cpu" ? "cpu" : "gpu"; }

std::vector<double> Tenths() {
  std::vector<double> bounds;
  for (int i = 1; i <= 9; ++i) bounds.push_back(i / 10.0);
  return bounds;
}

std::vector<double> ForecastDurationBounds() {
  return {20e-6, 50e-6, 100e-6, 200e-6, 500e-6, 1e-3, 5e-3, 20e-3, 0.1, 0.5, 2, 10, 60};
}

}  // namespace

ServiceMetrics::ServiceMetrics(MetricsRegistry& registry, const std::vector<std::string>& backends)
    : queue_length_(registry.Gauge("kernelcast_forecaster_pending_writes",
                                   "Calls waiting for their labels or problem to be on disk")) {
  for (const std::string& backend : backends) {
    durations_[backend] =
        &registry.Histogram("kernelcast_forecaster_forecast_duration_seconds",
                            "Time from a valid request to its forecast or abstention",
                            ForecastDurationBounds(), {{"backend", backend}});
  }
  std::vector<std::string> scored = backends;
  scored.emplace_back(kOtherBackend);
  for (const char* target : kTargets) {
    for (const std::string& backend : scored) {
      const Labels labels = {{"target", target}, {"backend", backend}};
      scores_[{target, backend}] = {
          &registry.Histogram("kernelcast_forecaster_forecast_confidence",
                              "Probability of the predicted bin", Tenths(), labels),
          &registry.Histogram("kernelcast_forecaster_brier_score",
                              "Half-Brier score of forecasts used in decisions, from later labels",
                              Tenths(), labels),
          &registry.Histogram(
              "kernelcast_forecaster_crps_score",
              "Ranked probability score of forecasts used in decisions, from later labels",
              Tenths(), labels)};
    }
    for (size_t i = 0; i < kBuckets; ++i) {
      const std::string bucket =
          absl::StrCat("0.", i, "-", i + 1 == kBuckets ? "1.0" : absl::StrCat("0.", i + 1));
      const auto outcomes = [&](const char* outcome) {
        return &registry.Counter("kernelcast_forecaster_calibration_outcomes_total",
                                 "Forecasts with a label, by the probability of the predicted bin",
                                 {{"target", target}, {"bucket", bucket}, {"outcome", outcome}});
      };
      buckets_[target][i] = {
          &registry.Counter("kernelcast_forecaster_calibration_probability_total",
                            "Sum of the probabilities of predicted bins of forecasts with a label, "
                            "by that probability",
                            {{"target", target}, {"bucket", bucket}}),
          outcomes("hit"), outcomes("miss")};
    }
  }
  const auto add_labels = [&](const char* target, std::string_view outcome) {
    labels_[{target, std::string(outcome)}] =
        &registry.Counter("kernelcast_forecaster_labels_total", "Labels accepted",
                          {{"target", target}, {"outcome", std::string(outcome)}});
  };
  for (const char* target : kTargets) {
    add_labels(target, "ok");
    for (const FailureKind failure : kFailures) add_labels(target, Name(failure));
  }
}

void ServiceMetrics::Forecasted(const std::string& backend, int64_t duration_ns) {
  const auto found = durations_.find(backend);
  if (found != durations_.end()) found->second->Observe(static_cast<double>(duration_ns) * 1e-9);
}

const ServiceMetrics::Scores& ServiceMetrics::ScoresOf(const std::string& target,
                                                       const std::string& backend) const {
  const auto known = scores_.find({target, backend});
  return known != scores_.end() ? known->second : scores_.at({target, kOtherBackend});
}

void ServiceMetrics::Confident(const std::string& target, const Forecast& forecast) {
  if (forecast.predicted_bin < 1) return;
  ScoresOf(TargetLabel(target), forecast.backend)
      .confidence->Observe(forecast.bin_probabilities[forecast.predicted_bin - 1]);
}

void ServiceMetrics::Observed(const Label& label, bool forecast_applies) {
  const std::string target = TargetLabel(label.candidate.target);
  const auto counter = labels_.find({target, std::string(OutcomeName(label.truth))});
  if (counter != labels_.end()) counter->second->Increment();

  const auto* speedup = std::get_if<Ratio>(&label.truth);
  if (speedup == nullptr || !forecast_applies || !label.forecast.has_value()) return;
  const Forecast& forecast = *label.forecast;
  if (!ValidateForecast(forecast).ok()) return;
  const absl::StatusOr<const BinScheme*> scheme = BinScheme::Find(forecast.bin_scheme_id);
  if (!scheme.ok()) return;
  const absl::StatusOr<int> truth = (*scheme)->Label(speedup->value);
  if (!truth.ok()) return;
  const Scores& scores = ScoresOf(target, forecast.backend);
  scores.half_brier->Observe(HalfBrier(forecast.bin_probabilities, *truth));
  scores.crps->Observe(RankedProbability(forecast.bin_probabilities, *truth));
  const int predicted = ArgmaxBin(forecast.bin_probabilities);
  const double p = forecast.bin_probabilities[predicted - 1];
  // A probability of exactly k/10 belongs to the lower bucket, as in ScoreForecasts.
  const int index =
      std::clamp(static_cast<int>(std::ceil(p * kBuckets)) - 1, 0, static_cast<int>(kBuckets) - 1);
  const Bucket& bucket = buckets_.at(target)[index];
  bucket.probability->Increment(p);
  (predicted == *truth ? bucket.hits : bucket.misses)->Increment();
}

void ServiceMetrics::QueueLength(size_t writes) { queue_length_.Set(static_cast<double>(writes)); }

}  // namespace kernelcast::forecaster
