#include "services/orchestrator/core/confirmation.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

namespace kernelcast::orchestrator {
namespace {

// Minimum size of the first round, regardless of how far apart the screenings are.
constexpr size_t kLeastCandidates = 3;
// Minimum uncertainty of a screening, in log speedup: how far off one process can be.
constexpr double kScreeningMargin = 0.03;
// Weight of kProcessSpread as a prior, in measurements.
constexpr double kPriorFreedom = 4;
// A candidate drops out if it is behind the best by more than kBehind standard errors and by more
// than kTail / measurements^1.5, which allows for processes that are far off.
constexpr double kBehind = 2.5;
constexpr double kTail = 0.03;

struct Contender {
  const Screened* screened = nullptr;
  std::vector<std::pair<double, const FinalMeasurement*>> values;  // log speedups, ascending
  int asked = 0;
  bool failed = false;
  bool lost = false;

  double Median() const {
    const size_t n = values.size();
    return 0.5 * (values[(n - 1) / 2].first + values[n / 2].first);
  }
};

std::vector<Contender> Contenders(std::span<const Screened> screened,
                                  std::span<const FinalMeasurement> finals) {
  std::vector<Contender> contenders;
  for (const Screened& one : screened) contenders.push_back({&one, {}, 0, false, false});
  for (const FinalMeasurement& final_one : finals) {
    const auto found = std::find_if(contenders.begin(), contenders.end(), [&](const auto& one) {
      return one.screened->candidate_id == final_one.candidate_id;
    });
    if (found == contenders.end()) continue;
    ++found->asked;
    if (final_one.speedup && final_one.speedup->value > 0) {
      found->values.emplace_back(std::log(final_one.speedup->value), &final_one);
    } else {
      (final_one.failed ? found->failed : found->lost) = true;
    }
  }
  for (Contender& one : contenders) {
    std::sort(one.values.begin(), one.values.end(), [](const auto& a, const auto& b) {
      return std::pair(a.first, a.second->request_id) < std::pair(b.first, b.second->request_id);
    });
  }
  return contenders;
}

// Variance of one final measurement, pooled over the candidates.
double Variance(const std::vector<Contender>& contenders) {
  double squares = kPriorFreedom * kProcessSpread * kProcessSpread;
  double freedom = kPriorFreedom;
  for (const Contender& one : contenders) {
    const auto n = static_cast<double>(one.values.size());
    if (n < 2) continue;
    double mean = 0;
    for (const auto& [value, source] : one.values) mean += value / n;
    for (const auto& [value, source] : one.values) squares += (value - mean) * (value - mean);
    freedom += n - 1;
  }
  return squares / freedom;
}

bool Runs(const Contender& one) { return !one.values.empty() && !one.failed; }

const Contender* Best(const std::vector<Contender>& contenders) {
  const Contender* best = nullptr;
  for (const Contender& one : contenders) {
    if (Runs(one) && (best == nullptr || one.Median() > best->Median())) best = &one;
  }
  return best;
}

double StandardError(const Contender& one, double variance) {
  double own = 0;
  const auto n = static_cast<double>(one.values.size());
  for (const auto& [value, source] : one.values) {
    own += std::pow(LogHalfWidth(*source->speedup) / kNormal95, 2) / n;
  }
  return std::sqrt(std::max(variance, own) / n);
}

// Whether it may still be as fast as the best.
bool MayBeBest(const Contender& one, const Contender& best, double variance) {
  const double error = std::hypot(StandardError(one, variance), StandardError(best, variance));
  const auto fewest = static_cast<double>(std::min(one.values.size(), best.values.size()));
  return one.Median() >= best.Median() - std::max(kBehind * error, kTail / std::pow(fewest, 1.5));
}

// On a machine whose state changes ratios by this much, nearly all candidates seem equal. The usual
// rounds would take seven times as many finals for a kernel that is less than 1% faster. One round
// of the first few is made instead.
constexpr double kNoisyHalfWidth = 0.05;
bool IsNoisy(const Ratio& lead) { return LogHalfWidth(lead) > kNoisyHalfWidth; }

}  // namespace

double LogHalfWidth(const Ratio& ratio) {
  if (ratio.low <= 0 || ratio.high <= 0) return 0;
  return 0.5 * std::log(ratio.high / ratio.low);
}

std::vector<std::string> NextFinals(std::span<const Screened> screened,
                                    std::span<const FinalMeasurement> finals,
                                    const ConfirmationLimits& limits) {
  std::vector<std::string> next;
  if (screened.empty() || limits.candidates <= 0) return next;
  const auto most = std::min(screened.size(), static_cast<size_t>(limits.candidates));
  if (finals.empty()) {
    const Ratio& lead = screened.front().speedup;
    const double reach = std::log(lead.value) - std::max(LogHalfWidth(lead), kScreeningMargin);
    for (size_t i = 0; i < most; ++i) {
      const Ratio& speedup = screened[i].speedup;
      const double top =
          std::log(speedup.value) + std::max(LogHalfWidth(speedup), kScreeningMargin);
      const bool may_be_best = top >= reach && !IsNoisy(lead) && !screened[i].behind;
      if (i < kLeastCandidates || may_be_best) next.push_back(screened[i].candidate_id);
    }
    return next;
  }
  const std::vector<Contender> contenders = Contenders(screened, finals);
  const Contender* const best = Best(contenders);
  if (best == nullptr) return next;
  const double variance = Variance(contenders);
  std::vector<const Contender*> left;
  int round = 0;
  for (const Contender& one : contenders) {
    if (!Runs(one) || !MayBeBest(one, *best, variance)) continue;
    left.push_back(&one);
    round = std::max(round, one.asked);
  }
  if (left.size() < 2) return next;
  // First completes a round that a crash interrupted.
  const bool level = std::all_of(left.begin(), left.end(), [&](const Contender* one) {
    return one->asked == round || one->lost;
  });
  const bool another = level && !IsNoisy(screened.front().speedup);
  const int goal = another ? round + 1 : round;
  for (const Contender* one : left) {
    if (one->asked < std::min(goal, limits.rounds) && !one->lost) {
      next.push_back(one->screened->candidate_id);
    }
  }
  if (finals.size() + next.size() > static_cast<size_t>(limits.measurements())) next.clear();
  return next;
}

std::vector<Finalist> RankFinalists(std::span<const Screened> screened,
                                    std::span<const FinalMeasurement> finals) {
  const std::vector<Contender> contenders = Contenders(screened, finals);
  const Contender* const best = Best(contenders);
  const double variance = Variance(contenders);
  std::vector<Finalist> ranked;
  for (const Contender& one : contenders) {
    if (one.values.empty() && !one.failed) continue;
    Finalist& finalist = ranked.emplace_back();
    finalist.candidate_id = one.screened->candidate_id;
    finalist.screening = one.screened->speedup;
    finalist.failed = one.failed;
    finalist.measurements = static_cast<uint32_t>(one.values.size());
    if (one.values.empty()) continue;
    const double error = StandardError(one, variance);
    const double median = one.Median();
    finalist.speedup = {std::exp(median), std::exp(median - kNormal95 * error),
                        std::exp(median + kNormal95 * error), 0.95};
    finalist.request_id = one.values[(one.values.size() - 1) / 2].second->request_id;
    finalist.tied = Runs(one) && &one != best && MayBeBest(one, *best, variance);
  }
  std::stable_sort(ranked.begin(), ranked.end(), [](const Finalist& a, const Finalist& b) {
    if (a.failed != b.failed) return b.failed;
    return a.speedup.value > b.speedup.value;
  });
  return ranked;
}

}  // namespace kernelcast::orchestrator
