#include "common/domain/scoring.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/domain/text.h"

namespace kernelcast {
namespace {

constexpr int kBuckets = 10;
constexpr double kProbabilityFloor = 1e-12;
// Published probabilities are rounded, so exact sums cannot be required.
constexpr double kScoredSimplexTolerance = 1e-3;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

absl::Status CheckItems(std::span<const ScoredForecast> items, size_t& bins) {
  if (items.empty()) return absl::InvalidArgumentError("items: there are none");
  bins = 0;
  for (const ScoredForecast& item : items) {
    if (bins == 0) bins = item.p.size();
  }
  if (bins < 2) {
    return absl::InvalidArgumentError("items: no item has probabilities over two bins or more");
  }
  double total_weight = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    const ScoredForecast& item = items[i];
    const auto invalid = [&](const std::string& what) {
      return absl::InvalidArgumentError(absl::StrCat("items[", i, "].", what));
    };
    if (item.true_bin < 1 || item.true_bin > static_cast<int>(bins)) {
      return invalid(absl::StrCat("true_bin: ", item.true_bin, " is not from 1 to ", bins));
    }
    if (item.predicted_bin < 0 || item.predicted_bin > static_cast<int>(bins)) {
      return invalid(
          absl::StrCat("predicted_bin: ", item.predicted_bin, " is not from 0 to ", bins));
    }
    if (!(item.weight >= 0) || std::isinf(item.weight)) {
      return invalid(absl::StrCat("weight: ", NumberText(item.weight), " is not a weight"));
    }
    total_weight += item.weight;
    if (item.unparsable) continue;
    if (item.p.size() != bins) {
      return invalid(absl::StrCat("p: ", item.p.size(), " values; earlier items have ", bins));
    }
    double sum = 0;
    for (const double value : item.p) {
      if (!(value >= 0) || std::isinf(value)) {
        return invalid(absl::StrCat("p: ", NumberText(value), " is not a probability"));
      }
      sum += value;
    }
    if (std::abs(sum - 1) > kScoredSimplexTolerance) {
      return invalid(absl::StrCat("p: the sum is ", NumberText(sum), ", not 1"));
    }
  }
  if (!(total_weight > 0) || std::isinf(total_weight)) {
    return absl::InvalidArgumentError("items: the weights do not have a positive finite sum");
  }
  return absl::OkStatus();
}

int BucketOf(double confidence) {
  int bucket = 0;
  while (bucket + 1 < kBuckets && confidence > static_cast<double>(bucket + 1) / kBuckets) ++bucket;
  return bucket;
}

// 1-based ranks. Ties get the middle rank.
std::vector<double> MidRanks(std::span<const double> values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, {}, [&](size_t i) { return values[i]; });
  std::vector<double> ranks(values.size());
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin + 1;
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    for (size_t i = begin; i < end; ++i) {
      ranks[order[i]] = (static_cast<double>(begin + 1) + static_cast<double>(end)) / 2;
    }
    begin = end;
  }
  return ranks;
}

// Counts insertions by position. Prefix sums take logarithmic time.
class PrefixCounts {
 public:
  explicit PrefixCounts(size_t size) : tree_(size + 1, 0) {}
  void Insert(size_t position) {
    for (size_t i = position + 1; i < tree_.size(); i += i & -i) ++tree_[i];
  }
  // Number of insertions at positions below `end`.
  uint64_t Below(size_t end) const {
    uint64_t count = 0;
    for (size_t i = end; i > 0; i -= i & -i) count += tree_[i];
    return count;
  }

 private:
  std::vector<uint64_t> tree_;
};

}  // namespace

double HalfBrier(std::span<const double> p, int true_bin) {
  double sum = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    const double gap = p[i] - (static_cast<int>(i) + 1 == true_bin ? 1 : 0);
    sum += gap * gap;
  }
  return sum / 2;
}

double RankedProbability(std::span<const double> p, int true_bin) {
  if (p.size() < 2) return 0;
  double sum = 0;
  double cumulative = 0;
  for (size_t i = 0; i + 1 < p.size(); ++i) {
    cumulative += p[i];
    const double gap = cumulative - (static_cast<int>(i) + 1 >= true_bin ? 1 : 0);
    sum += gap * gap;
  }
  return sum / static_cast<double>(p.size() - 1);
}

double NegativeLogLikelihood(std::span<const double> p, int true_bin) {
  return -std::log(std::max(p[true_bin - 1], kProbabilityFloor));
}

double Reward(RewardKind kind, std::span<const double> p, int true_bin) {
  const auto largest = std::ranges::max_element(p);
  const double hit = static_cast<int>(largest - p.begin()) + 1 == true_bin ? 1 : 0;
  switch (kind) {
    case RewardKind::kHit: return hit;
    case RewardKind::kHitBrier: return hit + (1 - HalfBrier(p, true_bin));
    case RewardKind::kHitCrps: return hit + (1 - RankedProbability(p, true_bin));
  }
  return hit;
}

int PredictedBin(const ScoredForecast& item) {
  if (item.predicted_bin > 0) return item.predicted_bin;
  return static_cast<int>(std::ranges::max_element(item.p) - item.p.begin()) + 1;
}

absl::StatusOr<ForecastMetrics> ScoreForecasts(std::span<const ScoredForecast> items) {
  size_t bins = 0;
  KC_RETURN_IF_ERROR(CheckItems(items, bins));
  const std::vector<double> uniform(bins, 1.0 / static_cast<double>(bins));
  ForecastMetrics metrics;
  metrics.reliability.resize(kBuckets);
  for (int b = 0; b < kBuckets; ++b) {
    metrics.reliability[b].low = static_cast<double>(b) / kBuckets;
    metrics.reliability[b].high = static_cast<double>(b + 1) / kBuckets;
  }
  double total = 0;
  std::vector<double> expected;
  std::vector<double> measured;
  for (const ScoredForecast& item : items) {
    ++metrics.items;
    const std::vector<double>& p = item.unparsable ? uniform : item.p;
    const int true_bin = item.true_bin;
    double hit = 0;
    double near = 0;
    double confidence = 0;
    if (item.unparsable) {
      ++metrics.unparsable;
      const int neighbours = (true_bin > 1 ? 1 : 0) + (true_bin < static_cast<int>(bins) ? 1 : 0);
      confidence = uniform[0];
      hit = uniform[0];
      near = (1 + neighbours) * uniform[0];
    } else {
      const int predicted = PredictedBin(item);
      confidence = p[predicted - 1];
      hit = predicted == true_bin ? 1 : 0;
      near = std::abs(predicted - true_bin) <= 1 ? 1 : 0;
      if (!std::isnan(item.expected_log2_speedup) && !std::isnan(item.measured_log2_speedup)) {
        expected.push_back(item.expected_log2_speedup);
        measured.push_back(item.measured_log2_speedup);
      }
    }
    const double w = item.weight;
    total += w;
    metrics.accuracy += w * hit;
    metrics.off_by_one_accuracy += w * near;
    metrics.half_brier += w * HalfBrier(p, true_bin);
    metrics.crps += w * RankedProbability(p, true_bin);
    metrics.negative_log_likelihood += w * NegativeLogLikelihood(p, true_bin);
    ReliabilityBucket& bucket = metrics.reliability[BucketOf(confidence)];
    bucket.weight += w;
    bucket.squared_weight += w * w;
    ++bucket.items;
    bucket.mean_confidence += w * confidence;
    bucket.accuracy += w * hit;
  }
  metrics.accuracy /= total;
  metrics.off_by_one_accuracy /= total;
  metrics.half_brier /= total;
  metrics.crps /= total;
  metrics.negative_log_likelihood /= total;
  for (ReliabilityBucket& bucket : metrics.reliability) {
    if (bucket.weight == 0) continue;
    bucket.mean_confidence /= bucket.weight;
    bucket.accuracy /= bucket.weight;
    metrics.expected_calibration_error +=
        bucket.weight / total * std::abs(bucket.accuracy - bucket.mean_confidence);
  }
  metrics.spearman = Spearman(expected, measured);
  metrics.pairwise_accuracy = PairwiseAccuracy(expected, measured);
  return metrics;
}

double Spearman(std::span<const double> x, std::span<const double> y) {
  const size_t n = std::min(x.size(), y.size());
  if (n < 2) return kNan;
  const std::vector<double> rank_x = MidRanks(x.first(n));
  const std::vector<double> rank_y = MidRanks(y.first(n));
  const double mean = (static_cast<double>(n) + 1) / 2;
  double xx = 0;
  double yy = 0;
  double xy = 0;
  for (size_t i = 0; i < n; ++i) {
    const double dx = rank_x[i] - mean;
    const double dy = rank_y[i] - mean;
    xx += dx * dx;
    yy += dy * dy;
    xy += dx * dy;
  }
  if (xx == 0 || yy == 0) return kNan;
  return std::clamp(xy / std::sqrt(xx * yy), -1.0, 1.0);
}

double PairwiseAccuracy(std::span<const double> x, std::span<const double> y) {
  const size_t n = std::min(x.size(), y.size());
  if (n < 2) return kNan;
  std::vector<double> distinct(x.begin(), x.begin() + static_cast<ptrdiff_t>(n));
  std::ranges::sort(distinct);
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  std::vector<size_t> rank(n);
  for (size_t i = 0; i < n; ++i) {
    rank[i] = static_cast<size_t>(std::ranges::lower_bound(distinct, x[i]) - distinct.begin());
  }
  std::vector<size_t> order(n);
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, {}, [&](size_t i) { return y[i]; });
  // Compares each group of equal y with all items of lower y.
  PrefixCounts seen(distinct.size());
  double right = 0;
  double pairs = 0;
  for (size_t begin = 0; begin < n;) {
    size_t end = begin + 1;
    while (end < n && y[order[end]] == y[order[begin]]) ++end;
    for (size_t i = begin; i < end; ++i) {
      const size_t r = rank[order[i]];
      const auto less = static_cast<double>(seen.Below(r));
      const auto less_or_equal = static_cast<double>(seen.Below(r + 1));
      right += less + (less_or_equal - less) / 2;
      pairs += static_cast<double>(begin);
    }
    for (size_t i = begin; i < end; ++i) seen.Insert(rank[order[i]]);
    begin = end;
  }
  return pairs == 0 ? kNan : right / pairs;
}

}  // namespace kernelcast
