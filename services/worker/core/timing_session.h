#ifndef KERNELCAST_SERVICES_WORKER_CORE_TIMING_SESSION_H_
#define KERNELCAST_SERVICES_WORKER_CORE_TIMING_SESSION_H_

#include <array>
#include <cstddef>
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
// Blocks come in groups of four, candidate, reference, reference, candidate, so that a drift that
// is linear over a group cancels in its ratio. A block stands for the median of those of its calls
// during which neither the kernel nor the judge had to wait for a core; what else lengthens a call
// now and then does not move the median.
class TimingSession {
 public:
  // Estimates of one undisturbed call's time, from the warm-up.
  TimingSession(const MeasureOptions& options, const PrecisionOptions& precision,
                double candidate_call_ns, double reference_call_ns);

  struct Block {
    bool finished = false;
    Side side = Side::kCandidate;
    // Undisturbed calls wanted; when to end the block although there are fewer; and when although
    // there are none.
    int calls = 0;
    int64_t max_ns = 0;
    int64_t give_up_ns = 0;
  };
  Block Next() const;

  struct BlockTimes {
    // Undisturbed calls, and the others, which count where there are no undisturbed ones.
    std::vector<double> calls_ns;
    std::vector<double> disturbed_calls_ns;
    // Wall time of the block with everything around the calls.
    int64_t elapsed_ns = 0;
  };
  // Times of the block that Next named.
  void Add(const BlockTimes& block);

  // One a clean group. Where the cap came before there were enough of them: one a pair of clean
  // neighbours in a group, or, where even these are too few, one for each group whatever befell it.
  std::vector<double> Ratios() const;
  // Of the blocks that the ratios come from.
  std::vector<double> CallTimes(Side side) const;
  Ratio Estimate() const;

  uint32_t blocks() const { return blocks_; }
  uint32_t discarded_blocks() const { return discarded_blocks_; }
  // "precision", "plateau" or "time_cap"; empty until finished.
  std::string_view stop_reason() const { return stop_reason_; }

 private:
  struct TimedBlock {
    double median = 0;  // 0: no call ended
    bool clean = false;
    std::vector<double> calls_ns;
  };
  // Candidate, reference, reference, candidate.
  struct Group {
    std::array<TimedBlock, 4> blocks;

    bool clean() const;
    double ratio() const;
  };
  enum class Basis {
    kCleanGroups,
    kCleanPairs,  // neighbouring blocks of a group, where too few whole groups are clean
    kAllGroups,
  };

  bool IsWild(Side side, double median) const;
  bool capped() const;
  Basis basis() const;
  std::vector<double> RatiosBy(Basis basis) const;
  void FinishGroup();

  const MeasureOptions options_;
  const PrecisionOptions precision_;
  double call_ns_[2];
  std::vector<double> clean_medians_[2];  // by side
  std::vector<Group> groups_;
  Group open_;
  size_t position_ = 0;  // within the open group
  int64_t useful_ns_ = 0;
  int64_t elapsed_ns_ = 0;
  uint32_t blocks_ = 0;
  uint32_t discarded_blocks_ = 0;
  std::vector<double> half_widths_;
  std::string_view stop_reason_;
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CORE_TIMING_SESSION_H_
