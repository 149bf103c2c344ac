#ifndef KERNELCAST_TESTS_BENCH_EXPERIMENTS_STRATEGY_COMPARISON_H_
#define KERNELCAST_TESTS_BENCH_EXPERIMENTS_STRATEGY_COMPARISON_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tests/bench/experiments/held_out.h"
#include "tests/bench/experiments/model_forecaster.h"

namespace kernelcast::forecaster {

// The comparison covers every combination of these.
struct ComparisonOptions {
  std::vector<std::string> strategies;  // names; "all" stands for every one
  // Device time as a share of what measuring the whole space in full takes.
  std::vector<double> shares;
  std::vector<std::string> forecasts = {"none", "embedded"};  // and "llm", which needs `llm`
  // "template": points of the space; "author": recorded kernels that a scripted author writes.
  std::vector<std::string> sources = {"template"};
  // "full": each candidate to the full precision; "early": not those that are behind.
  std::vector<std::string> timing = {"full"};
  std::vector<std::string> only;  // names of spaces; empty: all
  ModelEndpoint llm;
  int jobs = 1;  // searches at a time, each on one core
};

// Compares search strategies at equal device time on measured spaces. The embedded forecaster's
// model has not seen the problem's family. A limit of twice as many measurements as the share of
// the space bounds audits. Prints, over the spaces, the mean of the best found relative to the best
// of the space, with a 95% interval, the worst space's mean, the number of spaces whose median
// search finds 99%, the share of searches that found the best itself, and measurements.
// INVALID_ARGUMENT: unknown strategy.
[[nodiscard]] absl::Status CompareStrategies(const HeldOutOptions& options,
                                             ComparisonOptions comparison);

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_TESTS_BENCH_EXPERIMENTS_STRATEGY_COMPARISON_H_
