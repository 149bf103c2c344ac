#include "services/orchestrator/core/next_measurement.h"

#include <cmath>

#include "services/orchestrator/core/route_history.h"

namespace kernelcast::orchestrator {
namespace {

// In octaves. A forecaster without a prior reports more than 2 for a problem without labels.
constexpr double kUninformedDeviation = 1;

}  // namespace

bool IsInformed(const Forecast& forecast) {
  return forecast.stddev_log2_speedup < kUninformedDeviation ||
         std::abs(forecast.expected_log2_speedup) > forecast.stddev_log2_speedup;
}

bool ComparesLaunches(const Forecast& forecast) {
  return forecast.basis == ForecastBasis::kSimulation ||
         forecast.basis == ForecastBasis::kRecording;
}

std::optional<size_t> ChooseNext(std::span<const Forecast* const> forecasts,
                                 double incumbent_speedup) {
  std::optional<size_t> best;
  double most = 0;
  for (size_t i = 0; i < forecasts.size(); ++i) {
    if (forecasts[i] == nullptr) continue;
    const double improvement = ExpectedImprovement(*forecasts[i], incumbent_speedup);
    if (best.has_value() && !(improvement > most)) continue;
    most = improvement;
    best = i;
  }
  return best;
}

}  // namespace kernelcast::orchestrator
