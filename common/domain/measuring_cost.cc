#include "common/domain/measuring_cost.h"

#include <algorithm>
#include <cmath>

namespace kernelcast {
namespace {

// Prior: number of failures on which forecasts and measurements are assumed to have agreed.
constexpr double kPriorFailures = 0.5;

}  // namespace

void MeasuringCost::Measured(int64_t device_time_ns, bool correct,
                             std::optional<double> failure_probability) {
  Sum& sum = correct ? correct_ : wrong_;
  ++sum.count;
  sum.device_time_ns += device_time_ns;
  if (!failure_probability) return;
  wrong_forecast_ += correct ? 0 : 1;
  failure_forecast_ += *failure_probability;
}

void MeasuringCost::Pruned(double failure_probability) {
  ++pruned_;
  pruned_failure_forecast_ += failure_probability;
}

void MeasuringCost::Unpruned(double failure_probability) {
  --pruned_;
  pruned_failure_forecast_ -= failure_probability;
}

int64_t MeasuringCost::AvoidedNs() const {
  const double seen = (static_cast<double>(wrong_forecast_) + kPriorFailures) /
                      (failure_forecast_ + kPriorFailures);
  const auto pruned = static_cast<double>(pruned_);
  const double wrong = std::clamp(pruned_failure_forecast_ * seen, 0.0, pruned);
  return std::llround((pruned - wrong) * correct_.Mean() + wrong * wrong_.Mean());
}

}  // namespace kernelcast
