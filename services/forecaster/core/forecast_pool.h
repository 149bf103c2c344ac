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

// The linear pool: the mixture of the forecasts' distributions, in the proportions of their
// weights. P(failure) is the weighted mean; the bins, which are given that the candidate is
// correct, are weighted with each forecast's P(correct) besides, so that P(correct and bin) is the
// weighted mean too. Mean and deviation are those of the mixture of the given moments. The raw sum
// is the one farthest from 1 and argmax_mismatch any; usage is added up; rationale, names, versions
// and all else are the first forecast's.
//
// INVALID_ARGUMENT: none, different bin schemes or numbers of bins, a weight that is negative or
// not finite, or weights that are all zero. With valid forecasts the result is valid.
[[nodiscard]] absl::StatusOr<Forecast> LinearPool(std::span<const WeightedForecast> forecasts);

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_CORE_FORECAST_POOL_H_
