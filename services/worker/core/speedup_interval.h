#ifndef KERNELCAST_SERVICES_WORKER_CORE_SPEEDUP_INTERVAL_H_
#define KERNELCAST_SERVICES_WORKER_CORE_SPEEDUP_INTERVAL_H_

#include <map>
#include <optional>
#include <span>
#include <string>

#include "common/domain/measurement.h"
#include "services/worker/core/options.h"

namespace kernelcast::worker {

// Model of a measured speedup, in logarithms:
//
//   runner's value = truth + sitting + runner + noise
//
//   sitting  common to all runners of one measurement: input values and the state of the machine.
//            The state shows in the reference's time; when it changes, ratios change too, but less.
//   runner   specific to one process and its memory placement; its variance is the spread
//   noise    within a runner; more samples reduce it
//
// An interval with confidence p contains the value of a later, independent measurement with
// probability p: of the same kernel, by another worker process on the same device model, at the
// same or the final level. It is therefore wider than an interval for the truth, by the square root
// of 2.

// Variances of log(speedup), without noise.
struct Spread {
  double runner = 0;
  double sitting = 0;
};

// Learns the spread on one device from its measurements. One kernel has too few runners to estimate
// its own spread, so estimates are pooled: the prior of the device model, then this device, then
// the problem. Not thread-safe.
class RunnerSpread {
 public:
  explicit RunnerSpread(const SpreadOptions& options)
      : options_(options),
        state_squares_(options.state_degrees * options.state_deviation * options.state_deviation),
        state_degrees_(options.state_degrees) {}

  // Adds the log speedups of one kernel in several runners. `noise_variance` is the noise of each
  // value. Fewer than two values are ignored.
  void Add(const std::string& problem_id, std::span<const double> log_speedups,
           double noise_variance);

  // Adds the logarithm of the reference's time in one measurement. Recent values weigh most.
  void AddReferenceTime(const std::string& problem_id, double log_time);

  // Returns the expected spread of a kernel of the problem.
  Spread Of(const std::string& problem_id) const;

 private:
  struct Pool {
    double squares = 0;
    double degrees = 0;
  };

  const SpreadOptions options_;
  Pool device_;
  std::map<std::string, Pool> problems_;
  std::map<std::string, double> reference_times_;
  double state_squares_;
  double state_degrees_;
};

// One runner's value and the variance of its noise.
struct RunnerValue {
  double log_speedup = 0;
  double noise_variance = 0;
};

// The value of a runner with one ratio per group. Empty: there are no ratios. The noise is never
// below what few groups show by chance.
std::optional<RunnerValue> RunnerValueOf(std::span<const double> ratios,
                                         const MeasureOptions& options);

// Returns the speedup and its interval. The value is the geometric mean over runners, without the
// lowest and the highest if there are five or more. Returns a ratio of 0 if there are no runners.
//
// One runner: the interval combines its noise with `spread`. The runner part of `spread` is not
// taken below the prior, because kernels measured with several runners are a selection, and other
// kernels depend more on their placement. Several runners: it combines their observed variance,
// shrunk towards `spread`, with the sitting part.
Ratio SpeedupInterval(std::span<const RunnerValue> runners, Spread spread,
                      const SpreadOptions& options, double confidence);

// The value that a Student-t variable exceeds with probability (1 - confidence) / 2.
double TwoSidedQuantile(double confidence, double degrees_of_freedom);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CORE_SPEEDUP_INTERVAL_H_
