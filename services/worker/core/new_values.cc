#include "services/worker/core/new_values.h"

#include <algorithm>
#include <cmath>

#include "services/worker/core/statistics.h"

namespace kernelcast::worker {
namespace {

// In deviations of the rank sum.
constexpr double kCertain = 2.3;
constexpr double kSure = 4;
// In deviations of one round, where there is only one of a kind: both sides of both kinds vary.
constexpr double kLoneCertain = 4;
constexpr double kPausesForgiven = 2;
constexpr double kPauseSlackShare = 0.05;
// A block whose mean is this many times its median is uneven.
constexpr double kUneven = 1.5;
constexpr double kMostShare = 0.75;
constexpr double kFewShare = 0.25;
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

// How much slower the reference is, which is not the candidate's doing.
double ReferenceFactor(const Rounds& before, const Rounds& after) {
  return std::max(1.0, after.most().reference_ns / before.least().reference_ns);
}

double UnevenShare(std::span<const RelativeTimes> blocks) {
  size_t looked = 0;
  size_t uneven = 0;
  for (const RelativeTimes& block : blocks) {
    if (block.size() < kFewestCalls) {
      continue;
    }
    ++looked;
    uneven += Mean(block) > kUneven * Median(block) ? 1 : 0;
  }
  return looked < kFewestBlocks ? -1 : static_cast<double>(uneven) / static_cast<double>(looked);
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

Slowdown SlowdownOf(const Rounds& before, const Rounds& after) {
  const double reference = ReferenceFactor(before, after);
  Slowdown slowdown;
  slowdown.log_value =
      std::log(after.least().candidate_ns / (before.most().candidate_ns * reference));
  slowdown.certain =
      std::min(before.size(), after.size()) == 1
          ? slowdown.log_value > kLoneCertain * before.lone_deviation()
          : RankDeviations(before.candidate_most(), after.candidate_least(), reference) > kCertain;
  return slowdown;
}

bool SurelySlowerBy(double factor, const Rounds& before, const Rounds& after) {
  return RankDeviations(before.candidate_most(), after.candidate_least(),
                        factor * ReferenceFactor(before, after)) > kSure;
}

double ChargeFor(std::span<const Slowdown> found) {
  double most = 0;
  for (const Slowdown& slowdown : found) {
    if (slowdown.log_value > kAsQuickLog && slowdown.certain) {
      most = std::max(most, slowdown.log_value);
    }
  }
  return std::exp(most);
}

double PauseShare(double candidate_timed_ns, double reference_timed_ns, const Rounds& known,
                  double slack_ns) {
  const double forgiven_ns =
      kPausesForgiven * std::max(0.0, known.most().reference_ns - reference_timed_ns) +
      kPauseSlackShare * candidate_timed_ns + slack_ns;
  return std::max(0.0, known.least().candidate_ns - candidate_timed_ns - forgiven_ns) /
         std::max(1.0, candidate_timed_ns);
}

bool DoOthersWork(std::span<const RelativeTimes> candidate,
                  std::span<const RelativeTimes> reference) {
  const double reference_share = UnevenShare(reference);
  return UnevenShare(candidate) >= kMostShare && reference_share >= 0 &&
         reference_share <= kFewShare;
}

}  // namespace kernelcast::worker
