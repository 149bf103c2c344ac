#include "services/forecaster/pool/pool_weights.h"

#include <algorithm>
#include <cmath>

namespace kernelcast::forecaster {
namespace {

const ForecastComponent* Find(const Forecast& forecast, const std::string& backend) {
  for (const ForecastComponent& component : forecast.components) {
    if (component.backend.substr(0, component.backend.find(':')) == backend) return &component;
  }
  return nullptr;
}

}  // namespace

double PoolWeights::Second(std::string_view target, std::string_view device_model) const {
  const auto lead = lead_.find(ScopeName(target, device_model));
  const double weight = lead == lead_.end() ? 0.5 : 1 / (1 + std::exp(-lead->second));
  if (weight < options_.drop_below) return 0;
  return std::min(weight, 1 - options_.least_weight);
}

std::optional<double> PoolWeights::Learn(const Label& label, const std::string& first,
                                         const std::string& second,
                                         const std::string& reference_id) {
  const ForecastComponent* const other =
      label.forecast.has_value() ? Find(*label.forecast, second) : nullptr;
  return other != nullptr ? Learn(label, first, *other, reference_id) : std::nullopt;
}

std::optional<double> PoolWeights::Learn(const Label& label, const std::string& first,
                                         const ForecastComponent& second,
                                         const std::string& reference_id) {
  if (!label.forecast.has_value()) return std::nullopt;
  const Forecast& forecast = *label.forecast;
  if (!forecast.baseline_candidate_id.empty() && forecast.baseline_candidate_id != reference_id) {
    return std::nullopt;
  }
  const ForecastComponent* const one = Find(forecast, first);
  if (one == nullptr || !ValidateForecast(forecast).ok() ||
      one->bin_probabilities.size() != second.bin_probabilities.size()) {
    return std::nullopt;
  }

  int bin = 0;  // 0 for a failure
  if (const auto* speedup = std::get_if<Ratio>(&label.truth)) {
    const absl::StatusOr<const BinScheme*> scheme = BinScheme::Find(forecast.bin_scheme_id);
    if (!scheme.ok()) return std::nullopt;
    const absl::StatusOr<int> labelled = (*scheme)->Label(speedup->value);
    if (!labelled.ok()) return std::nullopt;
    bin = *labelled;
  }
  const auto probability = [&](const ForecastComponent& component) {
    const double p = bin == 0 ? component.failure_probability
                              : (1 - component.failure_probability) *
                                    component.bin_probabilities[static_cast<size_t>(bin - 1)];
    return std::max(p, options_.least_probability);
  };
  const double share = Second(label.candidate.target, label.device_model);
  const double alone = probability(*one);
  const double gain = std::log((share * probability(second) + (1 - share) * alone) / alone);
  const double weight = std::min(1 / label.propensity, options_.most_label_weight);
  double& lead = lead_[ScopeName(label.candidate.target, label.device_model)];
  lead = options_.discount * lead + weight * (std::log(probability(second)) - std::log(alone));
  return gain;
}

}  // namespace kernelcast::forecaster
