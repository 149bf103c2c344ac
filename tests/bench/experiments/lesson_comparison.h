#ifndef KERNELCAST_TESTS_BENCH_EXPERIMENTS_LESSON_COMPARISON_H_
#define KERNELCAST_TESTS_BENCH_EXPERIMENTS_LESSON_COMPARISON_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tests/bench/experiments/held_out.h"

namespace kernelcast::forecaster {

// Compares searches with and without lessons at equal device time, on every measured space: without
// forecasts, with the embedded forecaster, and with it without a model of other problems. The
// lessons are learnt from the complete records of other problems of the target, never from the
// problem itself:
//
//   family       from problems of the same family; spaces without one are left out
//   parameters   from all other problems, as if they were of the same family, so that parameters
//                and templates of the same name count
//
// The device time is a share of what measuring the whole space takes. Prints, for each space and
// over them, the mean of the best found relative to the best of the space, and the mean difference
// that lessons make with a 95% interval (spaces and seeds resampled).
[[nodiscard]] absl::Status CompareLessons(const HeldOutOptions& options,
                                          std::vector<std::string> strategies,
                                          const std::vector<double>& device_time_shares);

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_TESTS_BENCH_EXPERIMENTS_LESSON_COMPARISON_H_
