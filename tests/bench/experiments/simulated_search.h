#ifndef KERNELCAST_TESTS_BENCH_EXPERIMENTS_SIMULATED_SEARCH_H_
#define KERNELCAST_TESTS_BENCH_EXPERIMENTS_SIMULATED_SEARCH_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/domain/facts.h"
#include "services/forecaster/embedded/shared_model.h"
#include "services/forecaster/rpc/training_records.h"
#include "services/orchestrator/core/event.h"

namespace kernelcast::forecaster {

// A measured space with what a search of it needs besides the rows.
struct RecordedSpace {
  const MeasuredProblem* problem = nullptr;
  std::map<std::string, size_t> row_of;  // by candidate id
  std::vector<CompileFacts> facts;       // one per row
  // One per row, without preparing the problem: measurements of more than 2.5 times the median on a
  // GPU contain that, and count with the median.
  std::vector<int64_t> device_times_ns;
  double best_speedup = 0;
  int64_t device_time_ns = 0;  // of all rows
};

// Reads the file that `problem` was read from again. Must not outlive `problem`.
[[nodiscard]] absl::StatusOr<RecordedSpace> ReadSpace(const MeasuredProblem& problem,
                                                      const std::string& path);

// What a search of a recorded space finds.
struct Found {
  // Best measured speedup of the measurements that ended within the budget's device time.
  double speedup = 0;
  uint64_t measurements = 0;
};

// Searches with the orchestrator's state and plan, on one simulated device: compiling and
// forecasting take no time, each measurement its recorded device time. The forecaster is the
// embedded one with this model of other problems, and learns from a label at once. The budget must
// limit the device time.
[[nodiscard]] Found SimulateSearch(const RecordedSpace& space,
                                   std::shared_ptr<const SharedModel> shared,
                                   orchestrator::SearchSpec spec);

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_TESTS_BENCH_EXPERIMENTS_SIMULATED_SEARCH_H_
