#include "services/worker/core/speedup_interval.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "common/domain/student_t.h"
#include "services/worker/core/statistics.h"

namespace kernelcast::worker {
namespace {

// With this many runners or more, the lowest and the highest are excluded from the mean.
constexpr size_t kTrimmedFrom = 5;
// Variance of the trimmed mean relative to the plain mean for normal values: exact for five values,
// approximate for more.
constexpr double kTrimmedVariance = 1.14;
// Variance of a median of normal values relative to that of their mean.
constexpr double kMedianVariance = 1.57;
// Older observations of the machine's state lose this factor of their weight with each measurement.
constexpr double kStateMemory = 0.98;

double Squares(std::span<const double> values) {
  double mean = 0;
  for (const double value : values) mean += value / static_cast<double>(values.size());
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return squares;
}

double NormalQuantile(double confidence) {
  return TwoSidedQuantile(confidence, std::numeric_limits<double>::infinity());
}

}  // namespace

double TwoSidedQuantile(double confidence, double degrees_of_freedom) {
  return StudentTQuantile(0.5 * (1 + confidence), degrees_of_freedom);
}

void RunnerSpread::Add(const std::string& problem_id, std::span<const double> log_speedups,
                       double noise_variance) {
  if (log_speedups.size() < 2) {
    return;
  }
  const auto degrees = static_cast<double>(log_speedups.size() - 1);
  const double squares = std::max(0.0, Squares(log_speedups) - degrees * noise_variance);
  for (Pool* const pool : {&device_, &problems_[problem_id]}) {
    pool->squares += squares;
    pool->degrees += degrees;
  }
}

void RunnerSpread::AddReferenceTime(const std::string& problem_id, double log_time) {
  const auto [last, first] = reference_times_.try_emplace(problem_id, log_time);
  if (first) {
    return;
  }
  const double change = log_time - std::exchange(last->second, log_time);
  // The difference of two times has twice the variance of one.
  state_squares_ = kStateMemory * state_squares_ + 0.5 * change * change;
  state_degrees_ = kStateMemory * state_degrees_ + 1;
}

Spread RunnerSpread::Of(const std::string& problem_id) const {
  const auto shrink = [](const Pool& pool, double prior, double weight) {
    return (weight * prior + pool.squares) / (weight + pool.degrees);
  };
  const double device = shrink(device_, options_.runner_deviation * options_.runner_deviation,
                               options_.device_degrees);
  const auto problem = problems_.find(problem_id);
  return {.runner = problem == problems_.end()
                        ? device
                        : shrink(problem->second, device, options_.problem_degrees),
          .sitting = options_.sitting_deviation * options_.sitting_deviation +
                     options_.state_share * options_.state_share * state_squares_ / state_degrees_};
}

std::optional<RunnerValue> RunnerValueOf(std::span<const double> ratios,
                                         const MeasureOptions& options) {
  const Ratio median = MedianInterval(ratios, options.confidence, options.bootstrap_resamples);
  if (!(median.value > 0)) return std::nullopt;
  const double bootstrap =
      std::log(median.high / median.low) / (2 * NormalQuantile(options.confidence));
  const double least = options.spread.least_group_noise * options.spread.least_group_noise *
                       kMedianVariance / static_cast<double>(ratios.size());
  return RunnerValue{std::log(median.value), std::max(bootstrap * bootstrap, least)};
}

Ratio SpeedupInterval(std::span<const RunnerValue> runners, Spread spread,
                      const SpreadOptions& options, double confidence) {
  Ratio ratio{.confidence = confidence};
  if (runners.empty()) {
    return ratio;
  }
  if (runners.size() == 1) {
    spread.runner = std::max(spread.runner, options.runner_deviation * options.runner_deviation);
  }
  const auto count = static_cast<double>(runners.size());
  std::vector<double> values;
  double noise = 0;
  for (const RunnerValue& runner : runners) {
    values.push_back(runner.log_speedup);
    noise += runner.noise_variance / count;
  }
  // Total variance of one runner of this kernel, including noise.
  const double degrees = options.kernel_degrees + count - 1;
  const double total =
      (options.kernel_degrees * (spread.runner + noise) + Squares(values)) / degrees;
  const double between = std::max(0.0, total - noise);

  std::sort(values.begin(), values.end());
  const size_t trimmed = values.size() >= kTrimmedFrom ? 1 : 0;
  double centre = 0;
  for (size_t i = trimmed; i < values.size() - trimmed; ++i) {
    centre += values[i] / static_cast<double>(values.size() - 2 * trimmed);
  }
  const double normal = NormalQuantile(confidence);
  const double student = TwoSidedQuantile(confidence, degrees);
  // Noise is well known from its many samples; the spread is not.
  const double runner_part = runners.size() == 1
                                 ? normal * normal * noise + student * student * between
                                 : student * student * total * (trimmed ? kTrimmedVariance : 1.0);
  const double sitting_part = normal * normal * spread.sitting;
  // The later measurement has the same variance.
  const double half_width = std::sqrt(2 * (runner_part / count + sitting_part));
  ratio.value = std::exp(centre);
  ratio.low = std::exp(centre - half_width);
  ratio.high = std::exp(centre + half_width);
  ratio.within_deviation = std::sqrt(noise);
  ratio.between_deviation = std::sqrt(between + spread.sitting);
  return ratio;
}

}  // namespace kernelcast::worker
