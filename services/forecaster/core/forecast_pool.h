#ifndef KERNELCAST_SERVICES_FORECASTER_CORE_FORECAST_POOL_H_
#define KERNELCAST_SERVICES_FORECASTER_CORE_FORECAST_POOL_H_

#include <span>

#include "absl/status/statusor.h"
#include "common/domain/forecast.h"

namespace kernelcast::forecaster {

struct WeightedForecast {
  const Forecast* forecast = nullptr;
  double weight = 1;
};

// The linear pool: the mixture of the forecasts' distributions by weight. P(failure) is the
// weighted mean. The bins are conditional on correctness, so their weights are multiplied by each
// forecast's P(correct); P(correct and bin) is then the weighted mean too. Mean and deviation are
// those of the mixture. The raw sum is the one farthest from 1, argmax_mismatch is true if any is,
// and usage is added up. All other fields are those of the first forecast.
//
// INVALID_ARGUMENT: no forecasts, different bin schemes or numbers of bins, a weight that is
// negative or not finite, or only zero weights. Valid forecasts give a valid result.
[[nodiscard]] absl::StatusOr<Forecast> LinearPool(std::span<const WeightedForecast> forecasts);

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_CORE_FORECAST_POOL_H_
