#include "services/cli/core/suite_statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "common/domain/student_t.h"

namespace kernelcast::cli {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kLevel = 0.05;
// The normal quantile of 97.5%, for intervals without a confidence.
constexpr double kNormalQuantile = 1.959964;

struct VerdictWords {
  std::string_view name;
  std::string_view phrase;
};

VerdictWords WordsOf(SuiteVerdict verdict) {
  switch (verdict) {
    case SuiteVerdict::kFaster: return {"faster", "faster"};
    case SuiteVerdict::kSame: return {"same", "same speed"};
    case SuiteVerdict::kSlower: return {"slower", "slower"};
    case SuiteVerdict::kPassed: return {"passed", "correct, not timed"};
    case SuiteVerdict::kWrong: return {"wrong", "wrong result"};
    case SuiteVerdict::kCrash: return {"crash", "crash"};
    case SuiteVerdict::kTimeout: return {"timeout", "timeout"};
    case SuiteVerdict::kExploit: return {"exploit", "exploit"};
    case SuiteVerdict::kCompileError: return {"compile_error", "does not compile"};
    case SuiteVerdict::kPruned: return {"pruned", "pruned"};
    case SuiteVerdict::kUnstable: return {"unstable", "too noisy to tell"};
    case SuiteVerdict::kNotJudged: return {"not_judged", "not judged"};
  }
  return {"not_judged", "not judged"};
}

// The fastest correct candidate that was timed, or null.
const Ratio* FastestOf(const std::vector<JudgedSpeedup>& candidates) {
  const Ratio* fastest = nullptr;
  for (const JudgedSpeedup& one : candidates) {
    if (!one.correct || !(one.speedup.value > 0)) continue;
    if (fastest == nullptr || one.speedup.value > fastest->value) fastest = &one.speedup;
  }
  return fastest;
}

double NormalQuantileOf(double confidence) {
  if (!(confidence > 0 && confidence < 1)) return kNormalQuantile;
  return StudentTQuantile((1 + confidence) / 2, std::numeric_limits<double>::infinity());
}

}  // namespace

std::string_view Name(SuiteVerdict verdict) { return WordsOf(verdict).name; }
std::string_view Phrase(SuiteVerdict verdict) { return WordsOf(verdict).phrase; }

bool IsCorrect(SuiteVerdict verdict) {
  return verdict == SuiteVerdict::kFaster || verdict == SuiteVerdict::kSame ||
         verdict == SuiteVerdict::kSlower || verdict == SuiteVerdict::kPassed;
}

bool IsFailure(SuiteVerdict verdict) {
  return verdict == SuiteVerdict::kWrong || verdict == SuiteVerdict::kCrash ||
         verdict == SuiteVerdict::kTimeout || verdict == SuiteVerdict::kExploit ||
         verdict == SuiteVerdict::kCompileError;
}

bool IsOpen(SuiteVerdict verdict) {
  return verdict == SuiteVerdict::kUnstable || verdict == SuiteVerdict::kNotJudged;
}

FastP FastPOf(double p, const JudgedTasks& tasks) {
  FastP fast{p, kNaN, kNaN};
  if (tasks.empty()) return fast;
  double mean = 0;
  double best = 0;
  for (const std::vector<JudgedSpeedup>& candidates : tasks) {
    const auto passes = std::ranges::count_if(candidates, [p](const JudgedSpeedup& one) {
      return one.correct && (p == 0 || one.speedup.value > p);
    });
    if (passes == 0) continue;
    mean += static_cast<double>(passes) / static_cast<double>(candidates.size());
    best += 1;
  }
  fast.mean = mean / static_cast<double>(tasks.size());
  fast.best = best / static_cast<double>(tasks.size());
  return fast;
}

MeanSpeedup MeanSpeedupOf(const JudgedTasks& tasks) {
  std::vector<double> logs;
  double below = 0;  // sums of squared distances to the ends of the intervals
  double above = 0;
  for (const std::vector<JudgedSpeedup>& candidates : tasks) {
    const Ratio* const fastest = FastestOf(candidates);
    if (fastest == nullptr) continue;
    logs.push_back(std::log(fastest->value));
    const double low = fastest->low > 0 ? std::log(fastest->value / fastest->low) : 0;
    const double high = fastest->high > 0 ? std::log(fastest->high / fastest->value) : 0;
    below += low * low;
    above += high * high;
  }
  MeanSpeedup mean{logs.size(), kNaN, kNaN, kNaN, kNaN, kNaN};
  if (logs.empty()) return mean;
  const auto count = static_cast<double>(logs.size());
  const double middle = std::accumulate(logs.begin(), logs.end(), 0.0) / count;
  mean.value = std::exp(middle);
  mean.noise_low = std::exp(middle - std::sqrt(below) / count);
  mean.noise_high = std::exp(middle + std::sqrt(above) / count);
  if (logs.size() < 2) return mean;
  double squares = 0;
  for (const double log : logs) squares += (log - middle) * (log - middle);
  const double error = std::sqrt(squares / (count - 1) / count);
  const double half = StudentTQuantile(1 - kLevel / 2, count - 1) * error;
  mean.low = std::exp(middle - half);
  mean.high = std::exp(middle + half);
  return mean;
}

SpeedChange SpeedChangeOf(const Ratio& before, const Ratio& after) {
  SpeedChange change;
  if (!(before.low > 0 && after.low > 0)) return change;
  const auto distance = [](double above, double below) { return std::log(above / below); };
  // An interval has the value of a later measurement, so it is wider than that of the truth by the
  // square root of 2.
  const double down =
      std::hypot(distance(after.value, after.low), distance(before.high, before.value)) /
      std::sqrt(2.0);
  const double up =
      std::hypot(distance(after.high, after.value), distance(before.value, before.low)) /
      std::sqrt(2.0);
  Ratio& ratio = change.ratio;
  ratio.value = after.value / before.value;
  ratio.low = ratio.value * std::exp(-down);
  ratio.high = ratio.value * std::exp(up);
  ratio.confidence = std::min(before.confidence, after.confidence);
  // The side of the interval that faces 1.
  const double log_ratio = std::log(ratio.value);
  const double half = log_ratio > 0 ? down : up;
  if (log_ratio == 0) return change;
  change.probability = half > 0 ? std::erfc(std::fabs(log_ratio) / half *
                                            NormalQuantileOf(ratio.confidence) / std::sqrt(2.0))
                                : 0;
  return change;
}

std::vector<bool> BeyondNoise(std::span<const SpeedChange> changes, double least_change) {
  std::vector<size_t> order(changes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t i) { return changes[i].probability; });
  std::vector<bool> beyond(changes.size(), false);
  for (size_t rank = 0; rank < order.size(); ++rank) {
    const SpeedChange& change = changes[order[rank]];
    if (change.probability > kLevel / static_cast<double>(order.size() - rank)) break;
    beyond[order[rank]] = std::fabs(std::log(change.ratio.value)) >= std::log1p(least_change);
  }
  return beyond;
}

}  // namespace kernelcast::cli
