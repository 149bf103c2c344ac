#ifndef KERNELCAST_SERVICES_CLI_CORE_PROGRESS_H_
#define KERNELCAST_SERVICES_CLI_CORE_PROGRESS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/domain/measurement.h"
#include "services/cli/core/cost.h"
#include "services/cli/core/text.h"

namespace kernelcast::cli {

// The best measured speedup after an improvement, and what had been spent by then.
struct Improvement {
  double speedup = 0;
  double device_seconds = 0;
  uint64_t tokens = 0;
};

// State of a running search, filled from its events.
struct SearchProgress {
  enum class Phase { kStarting, kRunning, kFinishing, kDone, kFailed };

  std::string problem;
  std::string target;
  std::string device;
  std::string search_id;
  Phase phase = Phase::kStarting;
  // Seconds since the search started, by the caller's clock.
  double elapsed_seconds = 0;
  // Estimated seconds until the budget ends; negative: unknown. See Pace.
  double seconds_left = -1;

  // Limits; 0: none.
  uint64_t max_candidates = 0;
  uint64_t max_measurements = 0;
  double max_wall_seconds = 0;
  double max_device_seconds = 0;

  uint64_t proposed = 0;
  uint64_t considered = 0;  // distinct candidates
  uint64_t measured = 0;
  uint64_t selected = 0;
  uint64_t deferred = 0;
  uint64_t promoted = 0;
  uint64_t audited = 0;
  uint64_t pruned = 0;
  uint64_t rejected = 0;
  uint64_t failures = 0;
  double device_seconds_spent = 0;
  double device_seconds_avoided = 0;

  // For a search whose kernels are written by a model.
  bool writes = false;
  uint64_t max_requests = 0;
  uint64_t requested = 0;  // except those that were not answered
  uint64_t written = 0;
  uint64_t repeated = 0;  // kernels that the search already had
  uint64_t unusable = 0;
  uint64_t unanswered = 0;
  uint64_t tokens = 0;

  uint64_t all_tokens = 0;  // with those of forecasts
  double token_cost = 0;    // as in SearchUsage
  TokenUsage unpriced_tokens;
  Prices prices;

  std::optional<Ratio> best;
  std::string best_name;
  std::vector<Improvement> improvements;  // oldest first

  // From the reference to the best candidate (LineageText).
  std::string lineage;
  // The effect of learning (LearningText).
  std::string learnt;
  // A line about a lost connection, and the latest event.
  std::string connection;
  std::string latest;
};

// Estimates when the budget ends, from the times at which parts of it were used. In between the
// estimate counts down, so that compiling or a long measurement does not increase it.
class Pace {
 public:
  // Call it whenever the figures may have changed. Returns the seconds left; negative while
  // unknown: at the start, and when the next part is overdue.
  double Update(const SearchProgress& progress);

 private:
  double first_used_ = -1;  // share of the budget at the first use; negative: none yet
  double first_seconds_ = 0;
  double used_ = 0;
  double seconds_ = 0;  // of the latest use
};

// The block that is redrawn on a terminal: lines without newlines, none wider than `width`.
std::vector<std::string> RenderProgressBlock(const SearchProgress& progress, const Style& style,
                                             int width, int64_t tick);
// One line for a log.
std::string RenderProgressLine(const SearchProgress& progress);

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_CORE_PROGRESS_H_
