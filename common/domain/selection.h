#ifndef KERNELCAST_COMMON_DOMAIN_SELECTION_H_
#define KERNELCAST_COMMON_DOMAIN_SELECTION_H_

#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/domain/scoring.h"

namespace kernelcast {

// What forecasts are worth to who chooses by them: which to trust, and which to measure. Beside
// common/domain/scoring.h, which scores them one by one. docs/protocol.md has the definitions.

// How sure a forecast is, in [0, 1]: its largest probability, 1 - entropy / ln K, or the largest
// less the second largest.
enum class ConfidenceKind { kMaxProbability, kEntropy, kMargin };
double Confidence(ConfidenceKind kind, std::span<const double> p);
// "max-prob", "entropy", "margin". INVALID_ARGUMENT, listing them.
[[nodiscard]] absl::StatusOr<ConfidenceKind> ParseConfidenceKind(std::string_view name);

struct CoveragePoint {
  double coverage = 0;    // share of the weight that is trusted
  double risk = 0;        // share of wrong bins among it
  double confidence = 0;  // of the least sure that is trusted
};

struct RiskCoverage {
  // One for each distinct confidence, the surest first; the last has coverage 1.
  std::vector<CoveragePoint> curve;
  // Area under it: the mean over the forecasts of the risk when it and all surer ones are trusted.
  double area = 0;
};

// Where forecasts are equally sure, the mean over their orders: each counts as wrong by the share
// of them that is. Unparsable items have the confidence of the uniform forecast and are wrong with
// probability 1 - 1/K. Of items that ScoreForecasts takes; weights count.
RiskCoverage RiskCoverageOf(ConfidenceKind kind, std::span<const ScoredForecast> items);

// A candidate of a pool from which those forecast fastest are measured.
struct PoolItem {
  double forecast = 0;  // the larger, the earlier it is measured; NaN: after all that have a number
  double speedup = 0;   // 0 where it failed
  bool winner = false;
};

struct PoolSelection {
  double best_found = 0;     // best speedup found / best of the pool
  double best_recalled = 0;  // probability that the best, or one as good, is among the measured
  double winner_recall = 0;  // share of the winners that are measured; NaN where there are none
};

// Of measuring ceil(share * size) of the pool, at least one, those forecast fastest first. Where
// forecasts are equal, the expectation over their orders; so with equal forecasts throughout it is
// what random choice finds. `share` in (0, 1]. NaN where nothing of the pool is correct.
PoolSelection SelectFromPool(std::span<const PoolItem> pool, double share);
// The same with forecasts that say nothing.
PoolSelection SelectAtRandom(std::span<const PoolItem> pool, double share);

// The largest of `draws` of `values`, drawn without replacement, each as likely: its expectation
// and the least value that it stays within with probability 1/2. `draws` is in [1, values.size()].
struct LargestDrawn {
  double expected = 0;
  double median = 0;
};
LargestDrawn LargestOfDraws(std::vector<double> values, size_t draws);

// log2 of the best speedup of the pool over that of the one forecast fastest, the mean over those
// that share this place; what failed counts as `failure_speedup`, which is positive. NaN where
// nothing of the pool is correct.
double Regret(std::span<const PoolItem> pool, double failure_speedup = 0.0625);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_DOMAIN_SELECTION_H_
