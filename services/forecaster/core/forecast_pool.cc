#include "services/forecaster/core/forecast_pool.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace kernelcast::forecaster {

absl::StatusOr<Forecast> LinearPool(std::span<const WeightedForecast> forecasts) {
  if (forecasts.empty()) return absl::InvalidArgumentError("no forecast to pool");
  const Forecast& first = *forecasts.front().forecast;
  double weight_sum = 0;
  for (const WeightedForecast& entry : forecasts) {
    if (!(entry.weight >= 0) || !std::isfinite(entry.weight)) {
      return absl::InvalidArgumentError(absl::StrCat("weight ", entry.weight, " is none"));
    }
    if (entry.forecast->bin_scheme_id != first.bin_scheme_id ||
        entry.forecast->bin_probabilities.size() != first.bin_probabilities.size()) {
      return absl::InvalidArgumentError("forecasts over different bins cannot be pooled");
    }
    weight_sum += entry.weight;
  }
  if (!(weight_sum > 0)) return absl::InvalidArgumentError("all weights are zero");

  Forecast pooled = first;
  double correct_sum = 0;
  for (const WeightedForecast& entry : forecasts) {
    correct_sum += entry.weight / weight_sum * (1 - entry.forecast->failure_probability);
  }
  std::fill(pooled.bin_probabilities.begin(), pooled.bin_probabilities.end(), 0.0);
  pooled.failure_probability = std::clamp(1 - correct_sum, 0.0, 1.0);
  pooled.token_usage = {};
  double mean = 0;
  double square = 0;
  for (const WeightedForecast& entry : forecasts) {
    const Forecast& forecast = *entry.forecast;
    const double weight = entry.weight / weight_sum;
    // If all forecasts are certain of failure, their bins still count by weight.
    const double share =
        correct_sum > 0 ? weight * (1 - forecast.failure_probability) / correct_sum : weight;
    for (size_t i = 0; i < pooled.bin_probabilities.size(); ++i) {
      pooled.bin_probabilities[i] += share * forecast.bin_probabilities[i];
    }
    mean += share * forecast.expected_log2_speedup;
    square += share * (forecast.stddev_log2_speedup * forecast.stddev_log2_speedup +
                       forecast.expected_log2_speedup * forecast.expected_log2_speedup);
    if (std::abs(forecast.raw_probability_sum - 1) > std::abs(pooled.raw_probability_sum - 1)) {
      pooled.raw_probability_sum = forecast.raw_probability_sum;
    }
    pooled.argmax_mismatch = pooled.argmax_mismatch || forecast.argmax_mismatch;
    pooled.token_usage += forecast.token_usage;
  }
  KC_RETURN_IF_ERROR(NormalizeSimplex(pooled.bin_probabilities));
  pooled.predicted_bin = ArgmaxBin(pooled.bin_probabilities);
  pooled.expected_log2_speedup = mean;
  pooled.stddev_log2_speedup = std::sqrt(std::max(0.0, square - mean * mean));
  return pooled;
}

}  // namespace kernelcast::forecaster
