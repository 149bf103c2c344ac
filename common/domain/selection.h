#ifndef KERNELCAST_COMMON_DOMAIN_SELECTION_H_
#define KERNELCAST_COMMON_DOMAIN_SELECTION_H_

#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/domain/scoring.h"

namespace kernelcast {

// Metrics of forecasts as a basis for choosing: which forecasts to trust and which candidates to
// measure. common/domain/scoring.h scores single forecasts. docs/reference/scoring.md has the
// definitions.

// Confidence of a forecast, in [0, 1]: its largest probability, 1 - entropy / ln K, or the largest
// probability minus the second largest.
enum class ConfidenceKind { kMaxProbability, kEntropy, kMargin };
double Confidence(ConfidenceKind kind, std::span<const double> p);
// "max-prob", "entropy" or "margin". INVALID_ARGUMENT lists them.
[[nodiscard]] absl::StatusOr<ConfidenceKind> ParseConfidenceKind(std::string_view name);

struct CoveragePoint {
  double coverage = 0;    // share of the weight that is trusted
  double risk = 0;        // share of wrong bins among the trusted
  double confidence = 0;  // lowest trusted confidence
};

struct RiskCoverage {
  // One point per distinct confidence, highest confidence first. The last point has coverage 1.
  std::vector<CoveragePoint> curve;
  // Area under the curve: the mean risk over all coverages.
  double area = 0;
};

// The items must pass ScoreForecasts. Weights count. Ties in confidence are averaged over all
// orders: each tied forecast counts as wrong by the share of them that is wrong. Unparsable items
// have the confidence of the uniform forecast and are wrong with probability 1 - 1/K.
RiskCoverage RiskCoverageOf(ConfidenceKind kind, std::span<const ScoredForecast> items);

// Risk of trusting the most confident forecasts up to this share of the weight, in (0, 1], where a
// part of equally confident ones is drawn at random.
double RiskAt(const RiskCoverage& risk_coverage, double coverage);

// A candidate in a pool of which the candidates with the highest forecasts are measured.
struct PoolItem {
  double forecast = 0;  // higher is measured earlier; NaN: after all numbers
  double speedup = 0;   // 0 if it failed
  bool winner = false;
};

struct PoolSelection {
  double best_found = 0;     // best speedup found / best of the pool
  double best_recalled = 0;  // probability that the best, or an equally good one, is measured
  double winner_recall = 0;  // share of the winners that is measured; NaN if there are none
};

// Result of measuring ceil(share * size) candidates of the pool, at least one, highest forecast
// first. Ties are averaged over all orders, so constant forecasts give the result of random choice.
// `share` is in (0, 1]. NaN if no candidate of the pool is correct.
PoolSelection SelectFromPool(std::span<const PoolItem> pool, double share);
// The same for uninformative forecasts.
PoolSelection SelectAtRandom(std::span<const PoolItem> pool, double share);

// The largest of `draws` values drawn uniformly without replacement from `values`: its expectation
// and its median. `draws` is in [1, values.size()].
struct LargestDrawn {
  double expected = 0;
  double median = 0;
};
LargestDrawn LargestOfDraws(std::vector<double> values, size_t draws);

// log2 of the best speedup of the pool over the speedup of the candidate forecast fastest, averaged
// over ties. A failed candidate counts as `failure_speedup`, which must be positive. NaN if no
// candidate of the pool is correct.
double Regret(std::span<const PoolItem> pool, double failure_speedup = 0.0625);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_DOMAIN_SELECTION_H_
