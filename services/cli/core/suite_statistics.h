#ifndef KERNELCAST_SERVICES_CLI_CORE_SUITE_STATISTICS_H_
#define KERNELCAST_SERVICES_CLI_CORE_SUITE_STATISTICS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "common/domain/measurement.h"

namespace kernelcast::cli {

// Verdict about a candidate of a suite. Stored results have the names.
enum class SuiteVerdict {
  kFaster,  // by its interval
  kSame,    // the interval has 1
  kSlower,
  kPassed,  // correct, and not timed
  kWrong,
  kCrash,
  kTimeout,
  kExploit,
  kCompileError,
  kPruned,    // settled on its forecast
  kUnstable,  // the environment was too noisy
  kNotJudged,
};
inline constexpr SuiteVerdict kSuiteVerdicts[] = {
    SuiteVerdict::kFaster,  SuiteVerdict::kSame,     SuiteVerdict::kSlower,
    SuiteVerdict::kPassed,  SuiteVerdict::kWrong,    SuiteVerdict::kCrash,
    SuiteVerdict::kTimeout, SuiteVerdict::kExploit,  SuiteVerdict::kCompileError,
    SuiteVerdict::kPruned,  SuiteVerdict::kUnstable, SuiteVerdict::kNotJudged};
std::string_view Name(SuiteVerdict verdict);    // "compile_error"
std::string_view Phrase(SuiteVerdict verdict);  // "does not compile"
bool IsCorrect(SuiteVerdict verdict);
bool IsFailure(SuiteVerdict verdict);  // wrong, crash, timeout, exploit or compile error
// Whether another run may find something else without a change of the candidate.
bool IsOpen(SuiteVerdict verdict);

// A candidate of a task, for the statistics.
struct JudgedSpeedup {
  bool correct = false;
  Ratio speedup = {};  // 0: not timed
};
// The candidates of each task. A task without candidates counts as one that none solves.
using JudgedTasks = std::vector<std::vector<JudgedSpeedup>>;

// The thresholds of fast_p that are reported.
inline constexpr double kFastThresholds[] = {0, 1, 1.5, 2};

// KernelBench's fast_p: the share of tasks with a correct candidate that is more than p times as
// fast as the reference. `mean` expects one candidate of each task, drawn at random; `best` has the
// fastest one. They are equal where each task has one candidate. NaN without tasks.
struct FastP {
  double p = 0;
  double mean = 0;
  double best = 0;
};
FastP FastPOf(double p, const JudgedTasks& tasks);

// The geometric mean of the speedups of each task's fastest correct candidate.
struct MeanSpeedup {
  size_t tasks = 0;  // with such a candidate; 0: the other fields are NaN
  double value = 0;
  // 95% interval over tasks: what other tasks of the kind would give. Student's t on the
  // logarithms. NaN for one task.
  double low = 0;
  double high = 0;
  // Interval by the noise of the measurements alone: what measuring these candidates again gives.
  double noise_low = 0;
  double noise_high = 0;
};
MeanSpeedup MeanSpeedupOf(const JudgedTasks& tasks);

// The change from one measurement to another. `ratio` is 0 if a bound of either is not above 0.
struct SpeedChange {
  Ratio ratio = {};        // of the second speedup to the first: above 1 is faster
  double probability = 1;  // of a ratio at least as far from 1 by noise alone
};
// By the normal distribution on the logarithms, with the widths of the intervals.
SpeedChange SpeedChangeOf(const Ratio& before, const Ratio& after);

// Holm's procedure: marks the changes that noise does not explain, so that all marks are right
// with 95% probability, however many changes there are. Changes smaller than `least_change` (0.05:
// 5%) are never marked.
std::vector<bool> BeyondNoise(std::span<const SpeedChange> changes, double least_change = 0);

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_CORE_SUITE_STATISTICS_H_
