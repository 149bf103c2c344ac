#ifndef KERNELCAST_COMMON_DOMAIN_SCORING_H_
#define KERNELCAST_COMMON_DOMAIN_SCORING_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace kernelcast {

// Scoring rules for probabilities `p` over K bins and a 1-based true bin. The paper reports the
// full Brier score, which is twice HalfBrier.

// 0.5 * sum_i (p_i - y_i)^2, in [0, 1].
double HalfBrier(std::span<const double> p, int true_bin);
// Sum over the first K-1 bins of (CDF_p - CDF_y)^2, divided by K-1, in [0, 1].
double RankedProbability(std::span<const double> p, int true_bin);
// -ln max(p[true], 1e-12).
double NegativeLogLikelihood(std::span<const double> p, int true_bin);

enum class RewardKind { kHit, kHitBrier, kHitCrps };
// hit, hit + (1 - half-Brier) or hit + (1 - CRPS).
double Reward(RewardKind kind, std::span<const double> p, int true_bin);

// One forecast with its outcome.
struct ScoredForecast {
  std::vector<double> p;
  int true_bin = 0;
  // Bin that the forecast names, used for accuracy and calibration error. 0: the most probable bin.
  int predicted_bin = 0;
  // Used by the ranking metrics. NaN: no value.
  double expected_log2_speedup = 0;
  double measured_log2_speedup = 0;
  // The answer could not be parsed. The means score it as the uniform forecast, whose predicted bin
  // hits with probability 1/K. The ranking metrics leave it out. It is counted separately, and `p`
  // is ignored.
  bool unparsable = false;
  // 1 / propensity. 1: unweighted.
  double weight = 1;
};

// The predicted bin of an item, or its most probable bin if it names none. The lowest bin wins
// ties. The item must not be unparsable.
int PredictedBin(const ScoredForecast& item);

struct ReliabilityBucket {
  double low = 0;
  double high = 0;
  double weight = 0;
  double squared_weight = 0;  // sum of squared weights
  uint64_t items = 0;
  double mean_confidence = 0;
  double accuracy = 0;
};

struct ForecastMetrics {
  uint64_t items = 0;
  uint64_t unparsable = 0;
  double accuracy = 0;
  double off_by_one_accuracy = 0;
  double expected_calibration_error = 0;
  double half_brier = 0;
  double crps = 0;
  double negative_log_likelihood = 0;
  // NaN if fewer than two items have a value.
  double spearman = 0;
  double pairwise_accuracy = 0;
  // Ten equal-width buckets of p[predicted]. A confidence of exactly k/10 belongs to the lower
  // bucket.
  std::vector<ReliabilityBucket> reliability;
};

// Computes all metrics. Means are weighted; ranking metrics are not. INVALID_ARGUMENT: no items,
// different numbers of bins, probabilities that do not sum to 1 (to 1e-3), or a true bin or weight
// out of range.
[[nodiscard]] absl::StatusOr<ForecastMetrics> ScoreForecasts(std::span<const ScoredForecast> items);

// Rank correlation, with mid-ranks for ties. NaN for fewer than two points or if one side is
// constant.
double Spearman(std::span<const double> x, std::span<const double> y);
// Share of pairs with y_i != y_j that x orders the same way. A tie in x counts one half.
double PairwiseAccuracy(std::span<const double> x, std::span<const double> y);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_DOMAIN_SCORING_H_
