#ifndef KERNELCAST_COMMON_CALIBRATION_FIT_CALIBRATOR_H_
#define KERNELCAST_COMMON_CALIBRATION_FIT_CALIBRATOR_H_

#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "common/calibration/bin_calibrator.h"

namespace kernelcast {

// A forecast and the bin that was measured.
struct CalibrationRecord {
  std::vector<double> p;  // sums to 1
  int true_bin = 0;       // from 1
  double weight = 1;      // 1 / propensity
};

// Options of vector scaling. It minimises the weighted negative log likelihood plus
// 0.5 * `pull` * (parameter - `toward`)^2 for each parameter, so that few records change it little.
struct VectorFit {
  VectorMap toward;  // empty: scale 1, bias 0
  double pull = 1;
  // Replaces `pull` for the scales. A large value keeps the scales at `toward`.
  std::optional<double> scale_pull = std::nullopt;
};

// Effective number of records: (sum w)^2 / sum w^2.
double EffectiveRecords(std::span<const CalibrationRecord> records);

// INVALID_ARGUMENT: no records, different numbers of bins, or a bin or weight out of range.
[[nodiscard]] absl::Status CheckRecords(std::span<const CalibrationRecord> records);

// `records` must pass CheckRecords, or be empty.
VectorMap FitVector(std::span<const CalibrationRecord> records, const VectorFit& options = {});

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_CALIBRATION_FIT_CALIBRATOR_H_
