#ifndef KERNELCAST_SERVICES_FORECASTER_CORE_CALIBRATION_H_
#define KERNELCAST_SERVICES_FORECASTER_CORE_CALIBRATION_H_

#include <span>
#include <string>
#include <string_view>

#include "services/forecaster/core/predictive.h"

namespace kernelcast::forecaster {

// A forecast made before its truth was known, as the model gave it, uncalibrated.
struct PrequentialRecord {
  StudentT predicted;
  double measured_log2_speedup = 0;
  // 1 / propensity: labels from deferrals alone are biased.
  double weight = 1;
};

inline constexpr std::string_view kCalibratorVersion = "scale/1";

// One factor by which predictive scales are multiplied.
struct ScaleCalibration {
  double multiplier = 1;
  double records = 0;  // effective number, from the weights

  // e.g. "scale/1;records=23;multiplier=1.180".
  std::string version() const;
};

// The factor with which the central 50% and 80% intervals cover what they say, averaged over the
// two. Few records move it little: it is as if `prior_records` records had been seen that `prior`
// calibrates perfectly. Always within [0.5, 3]. A weight counts at most 20 times the smallest.
ScaleCalibration FitScale(std::span<const PrequentialRecord> records,
                          const ScaleCalibration& prior = {}, double prior_records = 12);

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_CORE_CALIBRATION_H_
