#ifndef KERNELCAST_COMMON_DOMAIN_MEASUREMENT_CHECK_H_
#define KERNELCAST_COMMON_DOMAIN_MEASUREMENT_CHECK_H_

#include <string>

#include "absl/status/status.h"
#include "common/domain/facts.h"
#include "common/domain/measurement.h"

namespace kernelcast {

// The longest time that a measurement may hold: a week.
inline constexpr double kMaxTimeNs = 7 * 86400e9;

// Checks that a measurement is possible: times, ratios and rates are finite and not negative,
// intervals contain their value, texts and lists are bounded. INVALID_ARGUMENT names the field.
// Does not detect a measurement that is possible but wrong.
[[nodiscard]] absl::Status ValidateMeasurement(const Measurement& measurement);

// The measurement that was requested.
struct MeasurementOrder {
  std::string candidate_id;
  std::string problem_id;
  std::string target;
  std::string device_model;  // empty: any
  MeasureLevel level = MeasureLevel::kScreen;
};

// Checks that the measurement is the requested one and passes ValidateMeasurement.
[[nodiscard]] absl::Status CheckAgainst(const MeasurementOrder& order,
                                        const Measurement& measurement);

// Checks that facts from outside are finite and not too many. Any schema is accepted.
[[nodiscard]] absl::Status CheckFactsAreFinite(const CompileFacts& facts);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_DOMAIN_MEASUREMENT_CHECK_H_
