#ifndef KERNELCAST_SERVICES_WORKER_CORE_TIMING_SESSION_H_
#define KERNELCAST_SERVICES_WORKER_CORE_TIMING_SESSION_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "common/domain/measurement.h"
#include "services/worker/core/options.h"

namespace kernelcast::worker {

enum class Side { kCandidate, kReference };

// Decides how one bench shape is timed in one pair of runners: which side runs next and how often,
// which blocks count, and when it is enough. Pure: it is told the times and never looks at a clock.
//
//   Next() -> block to run -> Add(its times) -> ... -> Next() says finished
//
// Blocks come in groups of four, candidate, reference, reference, candidate, so that a drift that is
// linear over a group cancels in its ratio. A block stands for the median of its calls: a call that an
// interrupt or another process lengthened does not move it, and more than half would have to be hit.
class TimingSession {
 public:
  // Estimates of one call's time, from the warm-up.
  TimingSession(const MeasureOptions& options, const PrecisionOptions& precision,
                double candidate_call_ns, double reference_call_ns);

  struct Block {
    bool finished = false;
    Side side = Side::kCandidate;
    int calls = 0;
  };
  Block Next() const;

  struct BlockTimes {
    std::vector<double> calls_ns;
    // Share of the block during which the process was ready to run but had no core.
    double wait_share = 0;
    // Wall time of the block with everything around the calls.
    int64_t elapsed_ns = 0;
  };
  // Times of the block that Next named.
  void Add(const BlockTimes& block);

  // One a group: clean groups, or all where too few are clean.
  std::vector<double> Ratios() const;
  // Of the counted groups.
  std::vector<double> CallTimes(Side side) const;
  Ratio Estimate() const;

  uint32_t blocks() const { return blocks_; }
  uint32_t discarded_blocks() const { return discarded_blocks_; }
  // "precision", "plateau" or "time_cap"; empty until finished.
  std::string_view stop_reason() const { return stop_reason_; }

 private:
  struct Group {
    std::vector<double> medians[2];  // by side
    std::vector<double> calls[2];
    bool discarded = false;
    double ratio = 0;
  };

  bool IsWild(Side side, double median) const;
  void FinishGroup();
  std::vector<const Group*> Counted() const;

  const MeasureOptions options_;
  const PrecisionOptions precision_;
  double call_ns_[2];
  std::vector<double> block_medians_[2];
  std::vector<Group> groups_;
  Group open_;
  int position_ = 0;  // within the open group
  int64_t elapsed_ns_ = 0;
  uint32_t blocks_ = 0;
  uint32_t discarded_blocks_ = 0;
  std::vector<double> half_widths_;
  std::string_view stop_reason_;
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CORE_TIMING_SESSION_H_
