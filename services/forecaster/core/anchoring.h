#ifndef KERNELCAST_SERVICES_FORECASTER_CORE_ANCHORING_H_
#define KERNELCAST_SERVICES_FORECASTER_CORE_ANCHORING_H_

#include <vector>

#include "common/domain/bins.h"
#include "common/domain/forecast.h"

namespace kernelcast::forecaster {

// Probabilities of the same bins for a speedup that is `factor` times as large. Within a bin the
// probability is spread evenly in log2 S. An open bin extends beyond its edge twice as far as its
// Log2Midpoint.
std::vector<double> ShiftBins(const BinScheme& scheme, const std::vector<double>& probabilities,
                              double factor);

// Converts a forecast of S = anchor time / candidate time to one of S = reference time / candidate
// time, and records the anchor. Mean and deviation still distinguish candidates beyond the last
// edge. `anchor.speedup` must be positive and finite.
void RelativeToReference(const BinScheme& scheme, const ForecastAnchor& anchor, Forecast& forecast);

// Whether the forecast cannot tell if the candidate beats an incumbent with this speedup: the
// incumbent is beyond the last edge of the model's bins, and the candidate may be too.
bool IsBlindAt(const BinScheme& scheme, const Forecast& forecast, double incumbent_speedup);

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_CORE_ANCHORING_H_
