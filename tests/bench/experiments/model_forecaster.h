#ifndef KERNELCAST_TESTS_BENCH_EXPERIMENTS_MODEL_FORECASTER_H_
#define KERNELCAST_TESTS_BENCH_EXPERIMENTS_MODEL_FORECASTER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/domain/problem.h"
#include "tests/bench/experiments/simulated_search.h"

namespace kernelcast::forecaster {

// A language model behind an OpenAI-compatible endpoint.
struct ModelEndpoint {
  std::string url;
  std::string model;     // empty: the only one there
  std::string key_file;  // empty: no key
};

// Forecasts of a language model for one search: a forecaster service with the backend `llm` and an
// empty state, asked as the orchestrator asks it. Forecasts that fail are abstentions.
[[nodiscard]] absl::StatusOr<std::unique_ptr<SearchForecaster>> StartModelForecaster(
    const ModelEndpoint& endpoint, std::shared_ptr<const Problem> problem);

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_TESTS_BENCH_EXPERIMENTS_MODEL_FORECASTER_H_
