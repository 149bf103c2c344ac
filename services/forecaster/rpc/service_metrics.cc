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
    : confidence_(registry.Histogram("kernelcast_forecaster_forecast_confidence",
                                     "Probability of the predicted bin", Tenths())),
      half_brier_(registry.Histogram(
          "kernelcast_forecaster_brier_score",
          "Half-Brier score of forecasts that were decided on, by later labels", Tenths())),
      crps_(registry.Histogram(
          "kernelcast_forecaster_crps_score",
          "Ranked probability score of forecasts that were decided on, by later labels", Tenths())),
      queue_length_(registry.Gauge("kernelcast_forecaster_pending_writes",
                                   "Calls waiting for their labels or problem to be on disk")) {
  for (const std::string& backend : backends) {
    durations_[backend] =
        &registry.Histogram("kernelcast_forecaster_forecast_duration_seconds",
                            "Time from a valid request to its forecast or abstention",
                            ForecastDurationBounds(), {{"backend", backend}});
  }
  for (size_t i = 0; i < kBuckets; ++i) {
    const std::string bucket =
        absl::StrCat("0.", i, "-", i + 1 == kBuckets ? "1.0" : absl::StrCat("0.", i + 1));
    buckets_[i].probability = &registry.Counter(
        "kernelcast_forecaster_calibration_probability_total",
        "Sum of the probabilities of predicted bins whose truth is known, by that probability",
        {{"bucket", bucket}});
    constexpr const char* kOutcomes = "kernelcast_forecaster_calibration_outcomes_total";
    constexpr const char* kOutcomesHelp =
        "Forecasts whose truth is known, by the probability of the predicted bin";
    buckets_[i].hits =
        &registry.Counter(kOutcomes, kOutcomesHelp, {{"bucket", bucket}, {"outcome", "hit"}});
    buckets_[i].misses =
        &registry.Counter(kOutcomes, kOutcomesHelp, {{"bucket", bucket}, {"outcome", "miss"}});
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

void ServiceMetrics::Confident(const Forecast& forecast) {
  if (forecast.predicted_bin < 1) return;
  confidence_.Observe(forecast.bin_probabilities[forecast.predicted_bin - 1]);
}

void ServiceMetrics::Observed(const Label& label, bool forecast_applies) {
  const auto counter = labels_.find(
      {label.candidate.target == "cpu" ? "cpu" : "gpu", std::string(OutcomeName(label.truth))});
  if (counter != labels_.end()) counter->second->Increment();

  const auto* speedup = std::get_if<Ratio>(&label.truth);
  if (speedup == nullptr || !forecast_applies || !label.forecast.has_value()) return;
  const Forecast& forecast = *label.forecast;
  if (!ValidateForecast(forecast).ok()) return;
  const absl::StatusOr<const BinScheme*> scheme = BinScheme::Find(forecast.bin_scheme_id);
  if (!scheme.ok()) return;
  const absl::StatusOr<int> bin = (*scheme)->Label(speedup->value);
  if (!bin.ok()) return;
  half_brier_.Observe(HalfBrier(forecast.bin_probabilities, *bin));
  crps_.Observe(RankedProbability(forecast.bin_probabilities, *bin));
  const int predicted = ArgmaxBin(forecast.bin_probabilities);
  const double p = forecast.bin_probabilities[predicted - 1];
  // A probability of exactly k/10 belongs to the lower bucket, as in ScoreForecasts.
  const int index =
      std::clamp(static_cast<int>(std::ceil(p * kBuckets)) - 1, 0, static_cast<int>(kBuckets) - 1);
  buckets_[index].probability->Increment(p);
  (predicted == *bin ? buckets_[index].hits : buckets_[index].misses)->Increment();
}

void ServiceMetrics::QueueLength(size_t writes) { queue_length_.Set(static_cast<double>(writes)); }

}  // namespace kernelcast::forecaster
