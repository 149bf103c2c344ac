#ifndef KERNELCAST_SERVICES_FORECASTER_CORE_CALIBRATION_H_
#define KERNELCAST_SERVICES_FORECASTER_CORE_CALIBRATION_H_

#include <span>
#include <string>
#include <string_view>

#include "services/forecaster/core/predictive.h"

namespace kernelcast::forecaster {

// An uncalibrated forecast from before its true value was known.
struct PrequentialRecord {
  StudentT predicted;
  double measured_log2_speedup = 0;
  // 1 / propensity, because labels from deferrals alone are biased.
  double weight = 1;
};

inline constexpr std::string_view kCalibratorVersion = "scale/1";

// A factor that multiplies predictive scales.
struct ScaleCalibration {
  double multiplier = 1;
  double records = 0;  // effective number, from the weights

  // e.g. "scale/1;records=23;multiplier=1.180".
  std::string version() const;
};

// The factor at which the central 50% and 80% intervals have their nominal coverage, averaged over
// the two. The prior counts as `prior_records` records that `prior` calibrates perfectly, so that
// few records change the factor little. Always within [0.5, 3]. A weight counts at most 20 times
// the smallest.
ScaleCalibration FitScale(std::span<const PrequentialRecord> records,
                          const ScaleCalibration& prior = {}, double prior_records = 12);

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_CORE_CALIBRATION_H_
