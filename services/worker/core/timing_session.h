#ifndef KERNELCAST_SERVICES_WORKER_CORE_TIMING_SESSION_H_
#define KERNELCAST_SERVICES_WORKER_CORE_TIMING_SESSION_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "common/domain/measurement.h"
#include "services/worker/core/new_values.h"
#include "services/worker/core/options.h"
#include "services/worker/core/speedup_interval.h"

namespace kernelcast::worker {

enum class Side { kCandidate, kReference };

// Ends the timing of a candidate that is already known to be slower than `stop_below`.
struct BehindRule {
  double stop_below = 0;  // 0: never
  Spread spread = {};     // expected of the problem's kernels
};

// Controls how one bench shape is timed in one pair of runners: which side runs next and how often,
// which blocks count, and when to stop. Pure: the caller runs the blocks and adds their times.
//
// Next() -> block to run -> Add(its times) -> ... -> Next() says finished
//
// Blocks come in groups of four (candidate, reference, reference, candidate), so that a drift that
// is linear over a group cancels in its ratio. The value of a block is the mean of its undisturbed
// calls (neither the kernel nor the judge waited for a core) without the longest one in 64. The
// mean charges a call that does the work of others. Other rare slow calls move the mean of a block,
// but hardly the median over groups.
//
// With a BehindRule, the prediction interval of the speedup, as SpeedupInterval gives it for this
// runner alone, is checked after 3, 6, 12, 24 and 48 clean groups. Each check has a fifth of the
// error probability of the reported interval, so that all checks together have no more than that.
class TimingSession {
 public:
  // The estimates are the times of one undisturbed call in the warm-up.
  // Timing ends early where `behind` says so.
  TimingSession(const MeasureOptions& options, const PrecisionOptions& precision,
                double candidate_call_ns, double reference_call_ns, const BehindRule& behind = {});

  struct Block {
    bool finished = false;
    Side side = Side::kCandidate;
    // Number of undisturbed calls wanted; the time after which to end the block with fewer; and the
    // time after which to end it even with none.
    int calls = 0;
    int64_t max_ns = 0;
    int64_t give_up_ns = 0;
  };
  Block Next() const;

  struct BlockTimes {
    // Undisturbed calls, and disturbed ones, which are used only if there are no undisturbed ones.
    std::vector<double> calls_ns;
    std::vector<double> disturbed_calls_ns;
    // Wall time of the block, including everything around the calls.
    int64_t elapsed_ns = 0;
  };
  // Adds the times of the block that Next returned.
  void Add(const BlockTimes& block);
  // Calls `run_block` with each block and the times to fill in, until it returns false or nothing
  // more is to be run. Returns what it returned last.
  template <class RunBlock>
  bool Run(const RunBlock& run_block) {
    for (Block block = Next(); !block.finished; block = Next()) {
      BlockTimes times;
      if (!run_block(block, times)) return false;
      Add(times);
    }
    return true;
  }

  // One ratio per clean group. If the cap came before there were enough of them: one per pair of
  // clean neighbours in a group, or, if even these are too few, one per group, clean or not.
  std::vector<double> Ratios() const;
  // The mean calls that each of the ratios is computed from.
  std::vector<RoundTimes> GroupTimes() const { return GroupTimesBy(basis()); }
  // Call times of the blocks that the ratios are computed from.
  std::vector<double> CallTimes(Side side) const;
  // The median of the ratios with the noise within this runner, which more blocks can narrow.
  // Sampling ends by this estimate alone.
  Ratio Estimate() const;

  // The median of the means of a side's clean blocks; the warm-up's estimate before there is one.
  double call_ns(Side side) const;

  uint32_t blocks() const { return blocks_; }
  uint32_t discarded_blocks() const { return discarded_blocks_; }
  // "precision", "plateau", "time_cap" or "behind"; empty until finished.
  std::string_view stop_reason() const { return stop_reason_; }

 private:
  struct TimedBlock {
    double mean = 0;  // 0: no call finished
    bool clean = false;
    std::vector<double> calls_ns;
  };
  // Blocks in the order candidate, reference, reference, candidate.
  struct Group {
    std::array<TimedBlock, 4> blocks;

    bool clean() const;
    RoundTimes times() const;
  };
  enum class Basis {
    kCleanGroups,
    kCleanPairs,  // neighbouring blocks of a group, used when too few whole groups are clean
    kAllGroups,
  };

  bool IsWild(Side side, double mean) const;
  bool capped() const;
  Basis basis() const;
  std::vector<RoundTimes> GroupTimesBy(Basis basis) const;
  std::vector<double> RatiosBy(Basis basis) const;
  void FinishGroup();
  bool IsBehind() const;

  const MeasureOptions options_;
  const PrecisionOptions precision_;
  const BehindRule behind_;
  double call_ns_[2];
  std::vector<double> clean_means_[2];  // by side
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
