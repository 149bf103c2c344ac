#ifndef KERNELCAST_COMMON_CALIBRATION_FIT_CALIBRATOR_H_
#define KERNELCAST_COMMON_CALIBRATION_FIT_CALIBRATOR_H_

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/calibration/bin_calibrator.h"

namespace kernelcast {

// A forecast with the bin that came true.
struct CalibrationRecord {
  std::vector<double> p;  // a simplex
  int true_bin = 0;       // from 1
  double weight = 1;      // 1 / propensity
};

// Temperature and vector scaling minimise the weighted sum of negative log likelihoods. Vector
// scaling adds half of `pull` times the squared distance of each parameter from `toward`, so that
// few records move it little.
struct VectorFit {
  VectorMap toward;  // empty: scale 1, bias 0
  double pull = 1;
  // Of the scales, where it is another one: a large one leaves them where they are.
  std::optional<double> scale_pull = std::nullopt;
};

// (sum w)^2 / sum w^2 over records with a weight.
double EffectiveRecords(std::span<const CalibrationRecord> records);

// INVALID_ARGUMENT: no record, different numbers of bins, a bin or weight out of range.
[[nodiscard]] absl::Status CheckRecords(std::span<const CalibrationRecord> records);

// Of checked records. Temperature within [0.05, 20].
TemperatureMap FitTemperature(std::span<const CalibrationRecord> records);
VectorMap FitVector(std::span<const CalibrationRecord> records, const VectorFit& options = {});
// Ten equal-width buckets of the largest probability, each worth the share of its forecasts whose
// most probable bin came true, with one more record at the bucket's mean confidence. An empty
// bucket is worth its middle.
StepMap FitHistogram(std::span<const CalibrationRecord> records);
// For each bin the best ascending line of its probabilities against whether it came true (pool
// adjacent violators).
PiecewiseMap FitIsotonic(std::span<const CalibrationRecord> records);

// Any of them, with its description. INVALID_ARGUMENT as CheckRecords.
[[nodiscard]] absl::StatusOr<BinCalibrator> FitCalibrator(
    CalibrationMethod method, std::string_view bin_scheme_id,
    std::span<const CalibrationRecord> records);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_CALIBRATION_FIT_CALIBRATOR_H_
