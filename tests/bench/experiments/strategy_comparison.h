#ifndef KERNELCAST_TESTS_BENCH_EXPERIMENTS_STRATEGY_COMPARISON_H_
#define KERNELCAST_TESTS_BENCH_EXPERIMENTS_STRATEGY_COMPARISON_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tests/bench/experiments/held_out.h"

namespace kernelcast::forecaster {

// Compares search strategies at equal device time, on every measured space: each without forecasts
// and with the embedded forecaster, whose model has not seen the problem's family. The device time
// is a share of what measuring the whole space takes; a limit of twice as many measurements bounds
// audits. Prints, over the spaces, the mean of the best
// found relative to the best of the space, with a 95% interval, the worst space's mean, and the
// share of searches that found the best itself. "all" stands for every strategy. INVALID_ARGUMENT:
// unknown strategy.
[[nodiscard]] absl::Status CompareStrategies(const HeldOutOptions& options,
                                             std::vector<std::string> strategies,
                                             const std::vector<double>& device_time_shares);

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_TESTS_BENCH_EXPERIMENTS_STRATEGY_COMPARISON_H_
