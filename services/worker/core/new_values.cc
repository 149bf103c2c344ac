#include "services/worker/core/new_values.h"

#include <algorithm>
#include <cmath>

#include "services/worker/core/statistics.h"

namespace kernelcast::worker {
namespace {

// In deviations of the rank sum.
constexpr double kCertain = 2.3;
// The rank sum of fewer rounds says little.
constexpr size_t kFewestRanked = 5;
// The overhead of an honest process varies by this factor between rounds.
constexpr double kOverheadFactor = 1.25;
// With shorter waits of the judge, a process polls no longer than usual.
constexpr double kQuietWaitNs = 20'000;
// A block is uneven if its mean exceeds its median by this factor more than in a typical block of
// the reference. On a busy machine honest kernels of 10 us have reached a factor of 2.1, since
// calls after an interruption find cold caches.
constexpr double kUneven = 3;
constexpr double kMostShare = 0.75;
constexpr size_t kFewestBlocks = 6;
constexpr size_t kFewestCalls = 6;

// How many deviations the rank sum of `after`, each divided by `factor`, is above what it is for
// times of one distribution (Wilcoxon, Mann and Whitney).
double RankDeviations(const std::vector<double>& before, const std::vector<double>& after,
                      double factor) {
  double slower = 0;
  for (const double a : after) {
    for (const double b : before) slower += a > b * factor ? 1 : a < b * factor ? 0 : 0.5;
  }
  const auto m = static_cast<double>(before.size());
  const auto n = static_cast<double>(after.size());
  return (slower - m * n / 2) / std::sqrt(m * n * (m + n + 1) / 12);
}

// The most by which the reference can be slower, which is not the candidate's doing.
double ReferenceFactor(const Rounds& before, const Rounds& after) {
  return std::max(1.0, after.most().reference_ns / before.least().reference_ns);
}

double ChargedLog(const Slowdown& slowdown) {
  return slowdown.certain && slowdown.log_value > kAsQuickLog ? slowdown.log_value : 0;
}

// The mean of each block relative to its median; blocks with few calls are left out.
std::vector<double> Unevenness(std::span<const RelativeTimes> blocks) {
  std::vector<double> of_blocks;
  for (const RelativeTimes& block : blocks) {
    if (block.size() >= kFewestCalls) {
      of_blocks.push_back(TrimmedMean(block) / Median(block));
    }
  }
  return of_blocks;
}

}  // namespace

void Rounds::Add(const RoundTimes& least, const RoundTimes& most) {
  candidate_least_.push_back(std::max(1.0, least.candidate_ns));
  candidate_most_.push_back(std::max(1.0, most.candidate_ns));
  reference_least_.push_back(std::max(1.0, least.reference_ns));
  reference_most_.push_back(std::max(1.0, most.reference_ns));
}

RoundTimes Rounds::least() const { return {Median(candidate_least_), Median(reference_least_)}; }

RoundTimes Rounds::most() const { return {Median(candidate_most_), Median(reference_most_)}; }

Slowdown SlowdownOf(const Rounds& before, const Rounds& after, double noise) {
  const double reference = ReferenceFactor(before, after);
  Slowdown slowdown;
  slowdown.log_value =
      std::log(after.least().candidate_ns / (before.most().candidate_ns * reference));
  const double least_reference =
      std::max(1.0, after.least().reference_ns / before.most().reference_ns);
  slowdown.most_log_value =
      std::log(after.most().candidate_ns / (before.least().candidate_ns * least_reference));
  slowdown.certain =
      std::min(before.size(), after.size()) < kFewestRanked
          ? slowdown.log_value > noise
          : RankDeviations(before.candidate_most(), after.candidate_least(), reference) > kCertain;
  return slowdown;
}

double ChargeFor(std::span<const Slowdown> found) {
  double most = 0;
  for (const Slowdown& slowdown : found) most = std::max(most, ChargedLog(slowdown));
  return std::exp(most);
}

double DoubtOf(std::span<const Slowdown> found) {
  double charged = kAsQuickLog;
  double most = 0;
  for (const Slowdown& slowdown : found) {
    charged = std::max(charged, ChargedLog(slowdown));
    most = std::max(most, slowdown.most_log_value);
  }
  return std::max(0.0, most - charged);
}

void RoundOverhead::AddReference(double ns, double judge_wait_ns) {
  if (judge_wait_ns < kQuietWaitNs) {
    quiet_ns_.push_back(ns);
  } else {
    disturbed_ns_.push_back(std::max(0.0, ns - judge_wait_ns));
  }
}

double RoundOverhead::WorkNs(double candidate_ns, double judge_wait_ns) const {
  const std::vector<double>& reference_ns = quiet_ns_.empty() ? disturbed_ns_ : quiet_ns_;
  const double allowed_ns =
      reference_ns.empty() ? 0 : kOverheadFactor * Median(reference_ns) + judge_wait_ns;
  return std::max(0.0, candidate_ns - allowed_ns);
}

bool DoOthersWork(std::span<const RelativeTimes> candidate,
                  std::span<const RelativeTimes> reference) {
  const std::vector<double> of_candidate = Unevenness(candidate);
  const std::vector<double> of_reference = Unevenness(reference);
  if (std::min(of_candidate.size(), of_reference.size()) < kFewestBlocks) {
    return false;
  }
  const double most = kUneven * Median(of_reference);
  const auto uneven =
      std::ranges::count_if(of_candidate, [&](double value) { return value > most; });
  return static_cast<double>(uneven) >= kMostShare * static_cast<double>(of_candidate.size());
}

}  // namespace kernelcast::worker
