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
  // Parts into which the problems are cut; each is scored with what the others fitted. At most one
  // for each problem.
  int folds = 5;
  uint64_t seed = 1;
  bool weighted = true;
};

// What a method makes of forecasts of problems that it was not fitted to.
struct MethodResult {
  CalibrationMethod method = CalibrationMethod::kNone;
  ForecastMetrics held_out;
  // The calibration error that these very forecasts would have, at this number, if they were right
  // about themselves.
  double error_by_chance = 0;
  // Of the problems: the median calibration error, and by chance.
  double median_problem_error = 0;
  double median_problem_error_by_chance = 0;
  // Fitted to everything.
  BinCalibrator calibrator;
};

struct CalibrationFit {
  uint64_t items = 0;
  uint64_t problems = 0;
  int folds = 0;
  std::string bin_scheme_id;
  // The first is kNone: the forecasts as they are. The others as asked for.
  std::vector<MethodResult> methods;
  // Index of the one with the smallest negative log likelihood.
  size_t best = 0;
};

// Fits and scores. Forecasts that are unparsable or of candidates that failed are left out.
// INVALID_ARGUMENT: nothing to fit, fewer than two problems, more than one bin scheme.
[[nodiscard]] absl::StatusOr<CalibrationFit> FitCalibrators(
    const std::vector<NamedOutcome>& outcomes, const CalibrationOptions& options);

// The mean calibration error over draws of the truth from the forecasts themselves.
double CalibrationErrorByChance(std::vector<ScoredForecast> items, int draws, uint64_t seed);

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_CORE_CALIBRATION_FIT_H_
