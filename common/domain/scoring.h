#ifndef KERNELCAST_COMMON_DOMAIN_SCORING_H_
#define KERNELCAST_COMMON_DOMAIN_SCORING_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace kernelcast {

// Scoring rules for a simplex `p` over K bins and a 1-based true bin. Defined once, here; the
// paper's figures use the full Brier score, which is twice `HalfBrier`.

// 0.5 * sum_i (p_i - y_i)^2, in [0, 1].
double HalfBrier(std::span<const double> p, int true_bin);
// sum over the first K-1 bins of (CDF_p - CDF_y)^2, divided by K-1, in [0, 1].
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
  // That the forecast names, for accuracy and calibration error; 0: the most probable one.
  int predicted_bin = 0;
  // For the ranking metrics; NaN where there is no number.
  double expected_log2_speedup = 0;
  double measured_log2_speedup = 0;
  // Scored in the means as the uniform forecast, whose predicted bin is drawn evenly (it hits with
  // probability 1/K); left out of the ranking metrics; counted apart. `p` is not looked at.
  bool unparsable = false;
  // 1 / propensity; 1 for unweighted.
  double weight = 1;
};

// That of the item, or the most probable one; the lowest where several are. Of items that can be
// parsed.
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
  // NaN where fewer than two items have a number.
  double spearman = 0;
  double pairwise_accuracy = 0;
  // Ten equal-width buckets on p[predicted]; a confidence of exactly k/10 belongs to the lower one.
  std::vector<ReliabilityBucket> reliability;
};

// Means are weighted, the ranking metrics are not. INVALID_ARGUMENT: items with different numbers
// of bins, not a simplex (to 1e-3), a true bin or a weight out of range, no items.
[[nodiscard]] absl::StatusOr<ForecastMetrics> ScoreForecasts(std::span<const ScoredForecast> items);

// Rank correlation with mid-ranks for ties. NaN for fewer than two points or a constant side.
double Spearman(std::span<const double> x, std::span<const double> y);
// Share of pairs with y_i != y_j that x orders the same way; ties in x count one half.
double PairwiseAccuracy(std::span<const double> x, std::span<const double> y);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_DOMAIN_SCORING_H_
