#ifndef KERNELCAST_TESTS_BENCH_EXPERIMENTS_SIMULATED_SEARCH_H_
#define KERNELCAST_TESTS_BENCH_EXPERIMENTS_SIMULATED_SEARCH_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/domain/candidate.h"
#include "common/domain/facts.h"
#include "services/forecaster/embedded/shared_model.h"
#include "services/forecaster/rpc/training_records.h"
#include "services/orchestrator/core/event.h"
#include "services/orchestrator/core/ports.h"
#include "tests/bench/experiments/embedded_forecaster.h"

namespace kernelcast::forecaster {

// How the speedup of a row was timed.
struct RecordedTiming {
  uint32_t groups = 0;        // of four blocks; 0: not timed
  double noise_variance = 0;  // of log(speedup), of one group
};

// A measured space with what a search of it needs besides the rows.
struct RecordedSpace {
  const MeasuredProblem* problem = nullptr;
  std::map<std::string, size_t> row_of;  // by candidate id, also of an author's kernels
  std::vector<CompileFacts> facts;       // one per row
  std::vector<Candidate> candidates;     // one per row
  std::vector<RecordedTiming> timings;   // one per row
  // One per row, without preparing the problem: measurements of more than 2.5 times the median on a
  // GPU contain that, and count with the median.
  std::vector<int64_t> device_times_ns;
  double best_speedup = 0;
  int64_t device_time_ns = 0;  // of all rows
};

// Reads the file that `problem` was read from again. Must not outlive `problem`.
[[nodiscard]] absl::StatusOr<RecordedSpace> ReadSpace(const MeasuredProblem& problem,
                                                      const std::string& path);

// The result of a search of a recorded space.
struct Found {
  // Best measured speedup of the measurements that ended within the budget's device time.
  double speedup = 0;
  uint64_t measurements = 0;
  uint64_t stopped_early = 0;  // of these
  int64_t device_time_ns = 0;  // of these
};

// Forecasts the candidates of one search of a recorded space.
class SearchForecaster {
 public:
  virtual ~SearchForecaster() = default;
  virtual orchestrator::ForecastResult Forecast(const orchestrator::ForecastQuery& query,
                                                size_t row) = 0;
  // The row was measured. `labels` are those of the search that were not passed before.
  virtual void Learn(size_t row, const std::vector<Label>& labels) = 0;
};

// The embedded forecaster with this model of other problems. It learns from a label at once.
class EmbeddedSearchForecaster final : public SearchForecaster {
 public:
  // The space must outlive this object.
  EmbeddedSearchForecaster(const RecordedSpace& space, std::shared_ptr<const SharedModel> shared,
                           uint64_t seed)
      : forecaster_(*space.problem, std::move(shared), seed) {}

  orchestrator::ForecastResult Forecast(const orchestrator::ForecastQuery&, size_t row) override {
    return forecaster_.Predict(row);
  }
  void Learn(size_t row, const std::vector<Label>&) override { forecaster_.Learn(row); }

 private:
  EmbeddedForecaster forecaster_;
};

// Searches with the orchestrator's state and plan, on one simulated device: compiling, forecasting
// and writing kernels take no time, each measurement its recorded device time. The budget must
// limit the device time. `forecaster` may be null if the search measures everything.
//
// A search with GeneratorKind::kLlm has an author who replays the recorded kernels, each once:
// those that were recorded as derived from the parent, otherwise, of four drawn at random, the one
// that differs from the parent in the fewest tunables.
//
// Unless spec.time_in_full is set, a candidate that is behind takes less time. In the model, its
// timing ends by the rule of the worker's protocol, after 3, 6, 12, 24 or 48 groups, with the
// recorded value, the noise that its recorded interval shows, and the prior spread of the device.
// The groups that are left out save their time: the slope of device time over blocks in the
// recorded spaces, in the median over spaces.
[[nodiscard]] Found SimulateSearch(const RecordedSpace& space, SearchForecaster* forecaster,
                                   orchestrator::SearchSpec spec);

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_TESTS_BENCH_EXPERIMENTS_SIMULATED_SEARCH_H_
