#include "common/domain/selection.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/domain/text.h"

namespace kernelcast {
namespace {

constexpr double kUndefined = std::numeric_limits<double>::quiet_NaN();
// Rounding can put share * size above a whole number by this much.
constexpr double kRounding = 1e-9;
// Smaller differences in confidence are rounding errors of sums.
constexpr double kSameConfidence = 1e-12;

// Indices in descending order of forecast. NaN comes last.
std::vector<size_t> Descending(std::span<const PoolItem> pool) {
  std::vector<size_t> order(pool.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto key = [&](size_t i) {
    return std::isnan(pool[i].forecast) ? -std::numeric_limits<double>::infinity()
                                        : pool[i].forecast;
  };
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return key(a) > key(b); });
  return order;
}

bool SamePlace(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

double BestOf(std::span<const PoolItem> pool) {
  double best = 0;
  for (const PoolItem& item : pool) best = std::max(best, item.speedup);
  return best;
}

// Calls see(value, P(the largest of `draws` is this value), P(it is smaller)) for each of `values`,
// largest first. `draws` must not be 0.
template <class See>
void ForEachLargest(std::vector<double> values, size_t draws, See see) {
  std::ranges::sort(values);
  // P(all drawn are among the smallest `rank`), updated from rank to rank - 1 by the ratio of two
  // binomial coefficients, so that nothing overflows.
  const auto k = static_cast<double>(draws);
  double at_most = 1;
  for (size_t rank = values.size(); rank >= draws; --rank) {
    const auto r = static_cast<double>(rank);
    const double below = at_most * (r - k) / r;
    see(values[rank - 1], at_most - below, below);
    at_most = below;
  }
}

// Expectation of max(`least`, the largest of `draws` drawn without replacement from `values`), and
// the probability that this is at least `target`.
struct Drawn {
  double expected = 0;
  double reaches = 0;
};
Drawn DrawLargest(std::vector<double> values, size_t draws, double least, double target) {
  if (draws == 0) return {least, least >= target ? 1.0 : 0.0};
  Drawn drawn;
  ForEachLargest(std::move(values), draws, [&](double value, double probability, double) {
    const double largest = std::max(least, value);
    drawn.expected += probability * largest;
    if (largest >= target) drawn.reaches += probability;
  });
  return drawn;
}

PoolSelection Select(std::span<const PoolItem> pool, double share, bool blindly) {
  PoolSelection selection{kUndefined, kUndefined, kUndefined};
  const double best = BestOf(pool);
  if (!(best > 0)) return selection;
  const std::vector<size_t> order = Descending(pool);
  size_t left = std::clamp<size_t>(
      static_cast<size_t>(std::ceil(share * static_cast<double>(pool.size()) - kRounding)), 1,
      pool.size());
  double found = 0;
  double winners = 0;
  double winners_found = 0;
  double reaches = 0;
  bool decided = false;
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin + 1;
    while (end < order.size() &&
           (blindly || SamePlace(pool[order[end]].forecast, pool[order[begin]].forecast))) {
      ++end;
    }
    const size_t size = end - begin;
    const size_t draws = std::min(left, size);
    std::vector<double> values;
    double here = 0;
    for (size_t i = begin; i < end; ++i) {
      values.push_back(pool[order[i]].speedup);
      here += pool[order[i]].winner ? 1 : 0;
    }
    winners += here;
    winners_found += here * static_cast<double>(draws) / static_cast<double>(size);
    if (!decided) {
      const Drawn drawn = DrawLargest(std::move(values), draws, found, best);
      found = drawn.expected;
      reaches = drawn.reaches;
      // All earlier groups are measured in full; only the last one is sampled.
      decided = draws < size || left == draws;
    }
    left -= draws;
    begin = end;
  }
  selection.best_found = found / best;
  selection.best_recalled = reaches;
  if (winners > 0) selection.winner_recall = winners_found / winners;
  return selection;
}

}  // namespace

double Confidence(ConfidenceKind kind, std::span<const double> p) {
  double largest = 0;
  double second = 0;
  double entropy = 0;
  for (const double value : p) {
    if (value > largest) {
      second = largest;
      largest = value;
    } else {
      second = std::max(second, value);
    }
    if (value > 0) entropy -= value * std::log(value);
  }
  switch (kind) {
    case ConfidenceKind::kMaxProbability: return largest;
    case ConfidenceKind::kEntropy:
      return p.size() < 2 ? 1 : 1 - entropy / std::log(static_cast<double>(p.size()));
    case ConfidenceKind::kMargin: return largest - second;
  }
  return largest;
}

absl::StatusOr<ConfidenceKind> ParseConfidenceKind(std::string_view name) {
  if (name == "max-prob") return ConfidenceKind::kMaxProbability;
  if (name == "entropy") return ConfidenceKind::kEntropy;
  if (name == "margin") return ConfidenceKind::kMargin;
  return absl::InvalidArgumentError(
      absl::StrCat("confidence ", Quoted(name), " is not one of max-prob, entropy, margin"));
}

RiskCoverage RiskCoverageOf(ConfidenceKind kind, std::span<const ScoredForecast> items) {
  struct Entry {
    double confidence;
    double loss;
    double weight;
  };
  size_t bins = 0;
  for (const ScoredForecast& item : items) bins = std::max(bins, item.p.size());
  const std::vector<double> uniform(bins, 1.0 / static_cast<double>(bins));
  std::vector<Entry> entries;
  entries.reserve(items.size());
  double total = 0;
  for (const ScoredForecast& item : items) {
    const std::span<const double> p = item.unparsable ? uniform : item.p;
    Entry entry{Confidence(kind, p), 0, item.weight};
    if (item.unparsable) {
      entry.loss = 1 - uniform[0];
    } else {
      entry.loss = PredictedBin(item) == item.true_bin ? 0 : 1;
    }
    total += entry.weight;
    entries.push_back(entry);
  }
  std::ranges::stable_sort(entries, std::greater<>(), &Entry::confidence);
  RiskCoverage result;
  double weight = 0;
  double loss = 0;
  for (size_t begin = 0; begin < entries.size();) {
    size_t end = begin;
    double group_weight = 0;
    double group_loss = 0;
    for (; end < entries.size() &&
           entries[begin].confidence - entries[end].confidence <= kSameConfidence;
         ++end) {
      group_weight += entries[end].weight;
      group_loss += entries[end].weight * entries[end].loss;
    }
    const double mean = group_weight > 0 ? group_loss / group_weight : 0;
    for (size_t i = begin; i < end; ++i) {
      weight += entries[i].weight;
      loss += entries[i].weight * mean;
      if (entries[i].weight > 0) result.area += entries[i].weight / total * loss / weight;
    }
    if (weight > 0)
      result.curve.push_back({weight / total, loss / weight, entries[begin].confidence});
    begin = end;
  }
  return result;
}

double RiskAt(const RiskCoverage& risk_coverage, double coverage) {
  CoveragePoint last;
  double wrong = 0;  // share of the weight that is trusted and wrong
  for (const CoveragePoint& point : risk_coverage.curve) {
    const double wrong_at_point = point.risk * point.coverage;
    if (point.coverage >= coverage) {
      const double width = point.coverage - last.coverage;
      const double part = width > 0 ? (coverage - last.coverage) / width : 1;
      return (wrong + part * (wrong_at_point - wrong)) / coverage;
    }
    wrong = wrong_at_point;
    last = point;
  }
  return last.coverage > 0 ? wrong / last.coverage : 0;
}

PoolSelection SelectFromPool(std::span<const PoolItem> pool, double share) {
  return Select(pool, share, /*blindly=*/false);
}

PoolSelection SelectAtRandom(std::span<const PoolItem> pool, double share) {
  return Select(pool, share, /*blindly=*/true);
}

LargestDrawn LargestOfDraws(std::vector<double> values, size_t draws) {
  LargestDrawn drawn;
  bool found = false;
  ForEachLargest(std::move(values), draws, [&](double value, double probability, double below) {
    drawn.expected += probability * value;
    if (!found && below < 0.5) {
      drawn.median = value;
      found = true;
    }
  });
  return drawn;
}

double Regret(std::span<const PoolItem> pool, double failure_speedup) {
  const double best = BestOf(pool);
  if (!(best > 0)) return kUndefined;
  const std::vector<size_t> order = Descending(pool);
  double sum = 0;
  size_t end = 0;
  for (; end < order.size() && SamePlace(pool[order[end]].forecast, pool[order[0]].forecast);
       ++end) {
    const double speedup = pool[order[end]].speedup;
    sum += std::log2(best / (speedup > 0 ? speedup : failure_speedup));
  }
  return sum / static_cast<double>(end);
}

}  // namespace kernelcast
