#ifndef KERNELCAST_SERVICES_CLI_CORE_FORECAST_EVAL_H_
#define KERNELCAST_SERVICES_CLI_CORE_FORECAST_EVAL_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/domain/forecast.h"
#include "common/domain/scoring.h"
#include "common/domain/selection.h"

namespace kernelcast::cli {

// A forecast and the outcome of its candidate.
struct ForecastOutcome {
  Forecast forecast;
  // Measured speedup over the forecast's baseline; absent if the candidate failed.
  std::optional<double> speedup;
  // The bin that the forecast names; 0: the most probable bin.
  int predicted_bin = 0;
  // The true bin in the forecast's scheme, as given by the data; absent: derived from the speedup.
  std::optional<int> true_bin;
  bool failed = false;
  // The model declined to forecast. EvaluateForecasts does not take such outcomes.
  bool abstained = false;
  // Group of candidates among which a search would choose. Repeated answers of a forecaster are in
  // separate pools.
  std::string pool;
  // Outcomes of one cluster are dependent and resampled together. Empty: a cluster of its own.
  std::string cluster;
  // 1 / propensity of having been measured.
  double weight = 1;
};

struct Interval {
  double value = 0;  // NaN: not available
  double low = 0;
  double high = 0;
};

// The result of measuring the share of candidates with the best forecasts, averaged over pools, and
// by measuring the same number at random.
struct ShareEvaluation {
  double share = 0;
  Interval best_found;
  Interval best_recalled;
  Interval winner_recall;
  double random_best_found = 0;
  double random_best_recalled = 0;
  double random_winner_recall = 0;
};

inline constexpr double kEvaluatedShares[] = {0.01, 0.02, 0.05, 0.1, 0.2, 0.5};
// Smaller pools are excluded from figures about choosing.
inline constexpr size_t kLeastPool = 5;

// Risk of trusting the most confident forecasts up to a share of the weight.
struct RiskPoint {
  double coverage = 0;
  double risk = 0;
};

inline constexpr int kRiskPoints = 10;

// The curve at kRiskPoints equal steps of coverage, of which the last is `coverage`, in (0, 1].
std::vector<RiskPoint> RiskPointsOf(const RiskCoverage& risk_coverage, double coverage = 1);

// Figures of a set of forecasts, with 95% bootstrap intervals over clusters.
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
  Interval area_under_risk_coverage;
  // Over pools of at least kLeastPool candidates, including failures.
  Interval regret;
  uint64_t pools = 0;
  std::vector<ShareEvaluation> shares;
  std::vector<CoveragePoint> risk_coverage;
  std::vector<RiskPoint> risk_points;  // of the same curve
  std::vector<ReliabilityBucket> reliability;
  // Over parsable forecasts only; no items if there are none.
  ForecastMetrics parsed;
};

struct EvaluationOptions {
  bool weighted = true;
  uint64_t seed = 1;
  int max_resamples = 1000;
  ConfidenceKind confidence = ConfidenceKind::kMaxProbability;
};

// A forecast with a measured speedup in the form needed for scoring, with weight 1.
// INVALID_ARGUMENT: another number of probabilities than the scheme has bins.
[[nodiscard]] absl::StatusOr<ScoredForecast> ScoredForecastOf(const ForecastOutcome& outcome,
                                                              const BinScheme& scheme);

// INVALID_ARGUMENT: nothing to score, more than one bin scheme, or a malformed forecast.
[[nodiscard]] absl::StatusOr<ForecastEvaluation> EvaluateForecasts(
    const std::vector<ForecastOutcome>& outcomes, const EvaluationOptions& options = {});

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_CORE_FORECAST_EVAL_H_
