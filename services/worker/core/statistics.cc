#include "services/worker/core/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "services/worker/core/random.h"

namespace kernelcast::worker {
namespace {

constexpr uint64_t kBootstrapSeed = 0x5eed0fb007;
constexpr size_t kValuesPerOutlier = 64;
// Time that the first of several calls may take to wake a process.
constexpr double kWakingNs = 200'000;

}  // namespace

double TrimmedMean(std::span<const double> values) {
  std::vector<double> kept(values.begin(), values.end());
  const size_t outliers = kept.size() / kValuesPerOutlier;
  if (outliers > 0) {
    const auto end = kept.end() - static_cast<ptrdiff_t>(outliers);
    std::nth_element(kept.begin(), end, kept.end());
    kept.erase(end, kept.end());
  }
  return Mean(kept);
}

TimeStatistics Summarise(std::span<const double> times_ns, std::span<const double> cold_times_ns) {
  TimeStatistics statistics;
  statistics.samples = times_ns.size();
  if (!times_ns.empty()) {
    statistics.median_ns = Median(times_ns);
    statistics.min_ns = *std::min_element(times_ns.begin(), times_ns.end());
    statistics.quartile1_ns = Quantile(times_ns, 0.25);
    statistics.quartile3_ns = Quantile(times_ns, 0.75);
  }
  if (!cold_times_ns.empty()) {
    statistics.cold_median_ns = Median(cold_times_ns);
  }
  return statistics;
}

Ratio MedianInterval(std::span<const double> ratios, double confidence, int resamples) {
  Ratio ratio{.confidence = confidence};
  if (ratios.empty()) {
    return ratio;
  }
  ratio.value = Median(ratios);
  Random random(kBootstrapSeed);
  std::vector<double> draws;
  std::vector<double> sample(ratios.size());
  draws.reserve(static_cast<size_t>(resamples));
  for (int i = 0; i < resamples; ++i) {
    for (double& value : sample) {
      value = ratios[random.Below(ratios.size())];
    }
    draws.push_back(MedianInPlace(sample));
  }
  const double tail = 0.5 * (1 - confidence);
  ratio.low = std::min(ratio.value, Quantile(draws, tail));
  ratio.high = std::max(ratio.value, Quantile(draws, 1 - tail));
  return ratio;
}

double RelativeHalfWidth(const Ratio& ratio) {
  return ratio.value > 0 ? 0.5 * (ratio.high - ratio.low) / ratio.value : HUGE_VAL;
}

Comparison Compare(const Ratio& ratio, double margin) {
  if (!(ratio.value > 0)) {
    return Comparison::kAmbiguous;
  }
  if (ratio.low >= 1 / (1 + margin) && ratio.high <= 1 + margin) {
    return Comparison::kSame;
  }
  if (ratio.low > 1) {
    return Comparison::kFaster;
  }
  return ratio.high < 1 ? Comparison::kSlower : Comparison::kAmbiguous;
}

bool HasPlateaued(std::span<const double> history, int window) {
  const auto size = static_cast<int64_t>(history.size());
  if (window <= 0 || size <= window) {
    return false;
  }
  const double before = history[static_cast<size_t>(size - 1 - window)];
  const double now = history[static_cast<size_t>(size - 1)];
  return std::isfinite(before) && now > 0.9 * before;
}

bool LooksCached(std::span<const double> candidate_repeated,
                 std::span<const double> candidate_fresh,
                 std::span<const double> reference_repeated,
                 std::span<const double> reference_fresh, double factor) {
  if (candidate_repeated.empty() || candidate_fresh.empty() || reference_repeated.empty() ||
      reference_fresh.empty()) {
    return false;
  }
  const double allowed = factor *
                         std::max(1.0, Median(reference_fresh) / Median(reference_repeated)) *
                         Median(candidate_repeated);
  // Caches and other processes may slow some calls down, but hardly all.
  if (*std::min_element(candidate_fresh.begin(), candidate_fresh.end()) > allowed) {
    return true;
  }
  const double sum = std::accumulate(candidate_fresh.begin(), candidate_fresh.end(), 0.0);
  const double longest = *std::max_element(candidate_fresh.begin(), candidate_fresh.end());
  return candidate_fresh.size() > 2 && longest > sum / 2 &&
         sum > allowed * static_cast<double>(candidate_fresh.size()) + kWakingNs;
}

}  // namespace kernelcast::worker
