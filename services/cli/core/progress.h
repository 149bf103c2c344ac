#ifndef KERNELCAST_SERVICES_CLI_CORE_PROGRESS_H_
#define KERNELCAST_SERVICES_CLI_CORE_PROGRESS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/domain/measurement.h"
#include "services/cli/core/text.h"

namespace kernelcast::cli {

// What is known of a running search; filled from its events.
struct SearchProgress {
  enum class Phase { kStarting, kRunning, kFinishing, kDone, kFailed };

  std::string problem;
  std::string target;
  std::string device;
  std::string search_id;
  Phase phase = Phase::kStarting;
  // Seconds since the search started, by the clock of the caller.
  double elapsed_seconds = 0;

  // Limits; 0: none.
  uint64_t max_candidates = 0;
  uint64_t max_measurements = 0;
  double max_wall_seconds = 0;
  double max_device_seconds = 0;

  uint64_t proposed = 0;
  uint64_t considered = 0;  // distinct candidates
  uint64_t measured = 0;
  uint64_t deferred = 0;
  uint64_t promoted = 0;
  uint64_t audited = 0;
  uint64_t pruned = 0;
  uint64_t rejected = 0;
  uint64_t failures = 0;
  double device_seconds_spent = 0;
  double device_seconds_avoided = 0;

  // Of a search that has its kernels written by a model.
  bool writes = false;
  uint64_t max_requests = 0;
  uint64_t requested = 0;  // but for those that nobody answered
  uint64_t written = 0;
  uint64_t unusable = 0;  // duplicates included
  uint64_t unanswered = 0;
  uint64_t tokens = 0;

  std::optional<Ratio> best;
  std::string best_name;
  uint64_t best_at_measured = 0;
  // Best measured speedup after each improvement, oldest first.
  std::vector<double> best_history;

  // A line about the connection, when it is lost; and the newest thing that happened.
  std::string connection;
  std::string latest;
};

// Counts candidates by what stands of them: a measurement before a forecast, a forecast before a
// refusal. Says how much device time pruning avoids, at the mean of what measuring took.
class StandingTracker {
 public:
  void Measured(const std::string& candidate_id, double device_seconds);
  void Pruned(const std::string& candidate_id);
  void Rejected(const std::string& candidate_id);
  uint64_t pruned() const { return counts_[kPruned]; }
  uint64_t rejected() const { return counts_[kRejected]; }
  double avoided_seconds() const;

 private:
  enum Standing { kNone, kRejected, kPruned, kMeasured };
  void Raise(const std::string& candidate_id, Standing standing);

  std::map<std::string, Standing> standing_;
  uint64_t counts_[4] = {};
  uint64_t measurements_ = 0;
  double measured_seconds_ = 0;
};

// Share of the tightest limit that is used up, in [0, 1]; 0 without a limit.
double BudgetUsed(const SearchProgress& progress);
// Seconds until the budget ends at the pace so far; negative where that cannot be said yet.
double EtaSeconds(const SearchProgress& progress);

// The block that is redrawn on a terminal: lines without newlines, none wider than `width`.
std::vector<std::string> RenderProgressBlock(const SearchProgress& progress, const Style& style,
                                             int width, int64_t tick);
// One line for a log.
std::string RenderProgressLine(const SearchProgress& progress);

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_CORE_PROGRESS_H_
