#ifndef KERNELCAST_SERVICES_CLI_CORE_FORECAST_EVAL_H_
#define KERNELCAST_SERVICES_CLI_CORE_FORECAST_EVAL_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/domain/forecast.h"
#include "common/domain/scoring.h"

namespace kernelcast::cli {

// A forecast with what became of its candidate.
struct ForecastOutcome {
  Forecast forecast;
  // Measured speedup over the baseline of the forecast; absent where the candidate failed.
  std::optional<double> speedup;
  bool failed = false;
  // 1 / propensity of having been measured.
  double weight = 1;
};

struct Interval {
  double value = 0;  // NaN where there is no figure
  double low = 0;
  double high = 0;
};

// Figures of a set of forecasts, with 95% bootstrap intervals over the items.
struct ForecastEvaluation {
  uint64_t items = 0;       // with a measured speedup
  uint64_t failures = 0;    // candidates that failed
  uint64_t unparsable = 0;  // forecasts without a distribution
  int resamples = 0;
  Interval accuracy;
  Interval off_by_one_accuracy;
  Interval expected_calibration_error;
  Interval half_brier;
  Interval crps;
  Interval negative_log_likelihood;
  Interval spearman;
  Interval pairwise_accuracy;
  // Mean squared error of P(failure), over items and failures.
  Interval failure_brier;
  std::vector<ReliabilityBucket> reliability;
};

struct EvaluationOptions {
  bool weighted = true;
  uint64_t seed = 1;
  int max_resamples = 1000;
};

// INVALID_ARGUMENT: nothing to score, more than one bin scheme, a forecast that is malformed.
[[nodiscard]] absl::StatusOr<ForecastEvaluation> EvaluateForecasts(
    const std::vector<ForecastOutcome>& outcomes, const EvaluationOptions& options = {});

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_CORE_FORECAST_EVAL_H_
