#ifndef KERNELCAST_SERVICES_CLI_CORE_CALIBRATION_FIT_H_
#define KERNELCAST_SERVICES_CLI_CORE_CALIBRATION_FIT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/calibration/fit_calibrator.h"
#include "services/cli/core/row_outcomes.h"

namespace kernelcast::cli {

struct CalibrationOptions {
  std::vector<CalibrationMethod> methods;
  // Number of folds; each is scored with calibrators fitted to the others. At most one per problem.
  int folds = 5;
  uint64_t seed = 1;
  bool weighted = true;
};

// Result of a method on problems that it was not fitted to.
struct MethodResult {
  CalibrationMethod method = CalibrationMethod::kNone;
  ForecastMetrics held_out;
  // Expected calibration error of the same forecasts, in the same number, if they were perfectly
  // calibrated.
  double error_by_chance = 0;
  // Median calibration error over problems, and its value by chance.
  double median_problem_error = 0;
  double median_problem_error_by_chance = 0;
  // Fitted to all data.
  BinCalibrator calibrator;
};

struct CalibrationFit {
  uint64_t items = 0;
  uint64_t problems = 0;
  int folds = 0;
  std::string bin_scheme_id;
  // The first is kNone, the uncalibrated forecasts. The others are the requested methods.
  std::vector<MethodResult> methods;
  // Index of the method with the smallest negative log likelihood.
  size_t best = 0;
};

// Fits and scores. Skips unparsable forecasts and those of candidates that failed.
// INVALID_ARGUMENT: nothing to fit, fewer than two problems, or more than one bin scheme.
[[nodiscard]] absl::StatusOr<CalibrationFit> FitCalibrators(
    const std::vector<NamedOutcome>& outcomes, const CalibrationOptions& options);

// Mean calibration error when the true bins are drawn from the forecasts themselves.
double CalibrationErrorByChance(std::vector<ScoredForecast> items, int draws, uint64_t seed);

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_CORE_CALIBRATION_FIT_H_
