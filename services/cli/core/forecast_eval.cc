#include "services/cli/core/forecast_eval.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/domain/bins.h"

namespace kernelcast::cli {
namespace {

// Pairwise accuracy is quadratic: sets so large that a full bootstrap takes minutes get fewer
// resamples, and the evaluation says how many.
constexpr double kPairBudget = 2e9;
constexpr int kFewestResamples = 40;

struct FailureItem {
  double probability = 0;
  double truth = 0;
  double weight = 1;
};

double FailureBrier(const std::vector<FailureItem>& items) {
  double sum = 0;
  double weight = 0;
  for (const FailureItem& item : items) {
    sum += item.weight * (item.probability - item.truth) * (item.probability - item.truth);
    weight += item.weight;
  }
  return weight > 0 ? sum / weight : std::numeric_limits<double>::quiet_NaN();
}

Interval MakeInterval(double value, std::vector<double>& resampled) {
  Interval interval{value, value, value};
  resampled.erase(std::remove_if(resampled.begin(), resampled.end(),
                                 [](double v) { return !std::isfinite(v); }),
                  resampled.end());
  if (resampled.empty()) return interval;
  std::sort(resampled.begin(), resampled.end());
  const auto quantile = [&](double q) {
    const double position = q * static_cast<double>(resampled.size() - 1);
    const auto lower = static_cast<size_t>(position);
    const size_t upper = std::min(lower + 1, resampled.size() - 1);
    const double fraction = position - static_cast<double>(lower);
    return resampled[lower] * (1 - fraction) + resampled[upper] * fraction;
  };
  interval.low = quantile(0.025);
  interval.high = quantile(0.975);
  return interval;
}

}  // namespace

absl::StatusOr<ForecastEvaluation> EvaluateForecasts(const std::vector<ForecastOutcome>& outcomes,
                                                     const EvaluationOptions& options) {
  std::vector<ScoredForecast> items;
  std::vector<FailureItem> failure_items;
  ForecastEvaluation evaluation;
  const BinScheme* scheme = nullptr;
  for (const ForecastOutcome& outcome : outcomes) {
    const Forecast& forecast = outcome.forecast;
    KC_ASSIGN_OR_RETURN(const BinScheme* own, BinScheme::Find(forecast.bin_scheme_id));
    if (scheme != nullptr && own != scheme) {
      return absl::InvalidArgumentError(absl::StrCat("forecasts of two bin schemes, ", scheme->id(),
                                                     " and ", own->id(),
                                                     ", cannot be scored together"));
    }
    scheme = own;
    const double weight = options.weighted ? outcome.weight : 1;
    failure_items.push_back({forecast.failure_probability, outcome.failed ? 1.0 : 0.0, weight});
    if (outcome.failed) ++evaluation.failures;
    if (!outcome.speedup.has_value()) continue;
    ScoredForecast item;
    KC_ASSIGN_OR_RETURN(item.true_bin, scheme->Label(*outcome.speedup));
    item.p = forecast.bin_probabilities;
    item.unparsable = item.p.empty();
    if (item.unparsable) {
      item.p.assign(static_cast<size_t>(scheme->size()), 1.0 / scheme->size());
    }
    if (item.p.size() != static_cast<size_t>(scheme->size())) {
      return absl::InvalidArgumentError(absl::StrCat(
          "a forecast of ", forecast.candidate_id, " has ", item.p.size(),
          " probabilities; the scheme ", scheme->id(), " has ", scheme->size(), " bins"));
    }
    item.expected_log2_speedup =
        item.unparsable ? std::numeric_limits<double>::quiet_NaN() : forecast.expected_log2_speedup;
    item.measured_log2_speedup = std::log2(*outcome.speedup);
    item.weight = weight;
    items.push_back(std::move(item));
  }
  if (items.empty()) {
    return absl::InvalidArgumentError(
        "nothing to score: no record holds both a forecast and a measured speedup");
  }
  KC_ASSIGN_OR_RETURN(const ForecastMetrics metrics, ScoreForecasts(items));
  evaluation.items = items.size();
  evaluation.unparsable = metrics.unparsable;
  evaluation.reliability = metrics.reliability;

  const double pairs = static_cast<double>(items.size()) * static_cast<double>(items.size());
  evaluation.resamples =
      std::min(options.max_resamples,
               std::max(kFewestResamples, static_cast<int>(std::min(1e6, kPairBudget / pairs))));
  std::mt19937_64 random(options.seed);
  std::uniform_int_distribution<size_t> pick(0, items.size() - 1);
  std::uniform_int_distribution<size_t> pick_failure(0, failure_items.size() - 1);
  struct Figure {
    Interval ForecastEvaluation::*interval;
    double ForecastMetrics::*metric;
    std::vector<double> resampled;
  };
  std::vector<Figure> figures = {
      {&ForecastEvaluation::accuracy, &ForecastMetrics::accuracy, {}},
      {&ForecastEvaluation::off_by_one_accuracy, &ForecastMetrics::off_by_one_accuracy, {}},
      {&ForecastEvaluation::expected_calibration_error,
       &ForecastMetrics::expected_calibration_error,
       {}},
      {&ForecastEvaluation::half_brier, &ForecastMetrics::half_brier, {}},
      {&ForecastEvaluation::crps, &ForecastMetrics::crps, {}},
      {&ForecastEvaluation::negative_log_likelihood, &ForecastMetrics::negative_log_likelihood, {}},
      {&ForecastEvaluation::spearman, &ForecastMetrics::spearman, {}},
      {&ForecastEvaluation::pairwise_accuracy, &ForecastMetrics::pairwise_accuracy, {}}};
  std::vector<double> failure_briers;
  std::vector<ScoredForecast> sample(items.size());
  std::vector<FailureItem> failure_sample(failure_items.size());
  for (int r = 0; r < evaluation.resamples; ++r) {
    for (ScoredForecast& item : sample) item = items[pick(random)];
    KC_ASSIGN_OR_RETURN(const ForecastMetrics resampled, ScoreForecasts(sample));
    for (Figure& figure : figures) figure.resampled.push_back(resampled.*figure.metric);
    for (FailureItem& item : failure_sample) item = failure_items[pick_failure(random)];
    failure_briers.push_back(FailureBrier(failure_sample));
  }
  for (Figure& figure : figures) {
    evaluation.*figure.interval = MakeInterval(metrics.*figure.metric, figure.resampled);
  }
  evaluation.failure_brier = MakeInterval(FailureBrier(failure_items), failure_briers);
  return evaluation;
}

}  // namespace kernelcast::cli
