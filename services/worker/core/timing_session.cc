#include "services/worker/core/timing_session.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "services/worker/core/statistics.h"

namespace kernelcast::worker {
namespace {

constexpr std::array<Side, 4> kGroup = {Side::kCandidate, Side::kReference, Side::kReference,
                                        Side::kCandidate};
constexpr int kMaxCallsInBlock = 4096;
// An interval of the median needs at least this many.
constexpr int kFewestRatios = 3;
// Intervals during sampling need not be as smooth as the reported one.
constexpr int kRunningResamples = 200;
// The cap bounds undisturbed time. Wall time is bounded by this many caps.
constexpr int kWallTimesCap = 4;
// Numbers of clean groups after which timing may end because the candidate is too slow.
constexpr std::array<size_t, 5> kLooks = {3, 6, 12, 24, 48};

int Index(Side side) { return side == Side::kCandidate ? 0 : 1; }

}  // namespace

bool TimingSession::Group::clean() const {
  return std::all_of(blocks.begin(), blocks.end(),
                     [](const TimedBlock& block) { return block.clean; });
}

RoundTimes TimingSession::Group::times() const {
  return {(blocks[0].mean + blocks[3].mean) / 2, (blocks[1].mean + blocks[2].mean) / 2};
}

TimingSession::TimingSession(const MeasureOptions& options, const PrecisionOptions& precision,
                             double candidate_call_ns, double reference_call_ns,
                             const BehindRule& behind)
    : options_(options),
      precision_(precision),
      behind_(behind),
      call_ns_{candidate_call_ns, reference_call_ns} {}

TimingSession::Block TimingSession::Next() const {
  if (!stop_reason_.empty()) {
    Block end;
    end.finished = true;
    return end;
  }
  const Side side = kGroup[position_];
  const double call_ns = std::max(1.0, call_ns_[Index(side)]);
  const auto block_ns = static_cast<double>(precision_.block_ns);
  // A block wants three calls if that does not make it much longer.
  const double calls = std::max(block_ns / call_ns, std::min(3.0, 4 * block_ns / call_ns));
  Block block;
  block.side = side;
  block.calls = static_cast<int>(std::clamp(calls, 1.0, double{kMaxCallsInBlock}));
  block.max_ns = static_cast<int64_t>(4 * std::max(block_ns, block.calls * call_ns));
  block.give_up_ns = 4 * block.max_ns;
  return block;
}

bool TimingSession::IsWild(Side side, double mean) const {
  const std::vector<double>& means = clean_means_[Index(side)];
  return means.size() >= 4 && mean > options_.wild_factor * Median(means);
}

void TimingSession::Add(const BlockTimes& block) {
  const Side side = kGroup[position_];
  TimedBlock& timed = open_.blocks[position_];
  const bool disturbed = block.calls_ns.empty();
  timed.calls_ns = disturbed ? block.disturbed_calls_ns : block.calls_ns;
  timed.mean = timed.calls_ns.empty() ? 0 : TrimmedMean(timed.calls_ns);
  timed.clean = !disturbed && !IsWild(side, timed.mean);
  if (timed.clean) {
    clean_means_[Index(side)].push_back(timed.mean);
    call_ns_[Index(side)] = Median(clean_means_[Index(side)]);
  }
  ++blocks_;
  discarded_blocks_ += timed.clean ? 0 : 1;
  elapsed_ns_ += block.elapsed_ns;
  if (block.disturbed_calls_ns.empty()) {
    useful_ns_ += block.elapsed_ns;
  } else {
    for (const double call : block.calls_ns) {
      useful_ns_ += static_cast<int64_t>(call);
    }
  }
  if (++position_ == kGroup.size()) {
    position_ = 0;
    FinishGroup();
  }
}

void TimingSession::FinishGroup() {
  const bool timed = std::all_of(open_.blocks.begin(), open_.blocks.end(),
                                 [](const TimedBlock& block) { return block.mean > 0; });
  if (timed) {
    groups_.push_back(std::move(open_));
  }
  open_ = Group();

  const Ratio estimate = Estimate();
  const double half_width = RelativeHalfWidth(estimate);
  half_widths_.push_back(half_width);
  const std::vector<double> candidate_calls = CallTimes(Side::kCandidate);
  const std::vector<double> reference_calls = CallTimes(Side::kReference);
  const double timed_ns = std::accumulate(candidate_calls.begin(), candidate_calls.end(), 0.0) +
                          std::accumulate(reference_calls.begin(), reference_calls.end(), 0.0);
  const bool slow = estimate.value > 0 && estimate.high < precision_.slow_ratio;
  const int min_groups = slow ? precision_.slow_min_groups : precision_.min_groups;
  const int64_t min_samples = slow ? min_groups * 2 : precision_.min_samples;
  const bool enough =
      std::ssize(Ratios()) >= min_groups &&
      std::min(std::ssize(candidate_calls), std::ssize(reference_calls)) >= min_samples &&
      timed_ns >= static_cast<double>(precision_.min_time_ns);
  if (enough && half_width <= (slow ? precision_.slow_half_width : precision_.half_width)) {
    stop_reason_ = "precision";
  } else if (IsBehind()) {
    stop_reason_ = kStoppedBehind;
  } else if (capped()) {
    stop_reason_ = "time_cap";
  } else if (enough && HasPlateaued(half_widths_, options_.plateau_groups)) {
    stop_reason_ = "plateau";
  }
}

bool TimingSession::IsBehind() const {
  if (!(behind_.stop_below > 0)) return false;
  const std::vector<double> ratios = RatiosBy(Basis::kCleanGroups);
  if (std::ranges::find(kLooks, ratios.size()) == kLooks.end()) return false;
  const std::optional<RunnerValue> value = RunnerValueOf(ratios, options_);
  if (!value || TwoSidedQuantile(options_.confidence, HUGE_VAL) * std::sqrt(value->noise_variance) >
                    options_.unstable_half_width) {
    return false;
  }
  const double confidence = 1 - (1 - options_.confidence) / static_cast<double>(std::size(kLooks));
  return SpeedupInterval({&*value, 1}, behind_.spread, options_.spread, confidence).high <
         behind_.stop_below;
}

bool TimingSession::capped() const {
  // A kernel so slow that it reaches the cap at once is still timed a few times.
  return elapsed_ns_ >= kWallTimesCap * precision_.cap_ns ||
         (useful_ns_ >= precision_.cap_ns && std::ssize(groups_) >= kFewestRatios);
}

TimingSession::Basis TimingSession::basis() const {
  if (!capped() || std::ssize(RatiosBy(Basis::kCleanGroups)) >= precision_.min_groups) {
    return Basis::kCleanGroups;
  }
  return std::ssize(RatiosBy(Basis::kCleanPairs)) >= kFewestRatios ? Basis::kCleanPairs
                                                                   : Basis::kAllGroups;
}

std::vector<RoundTimes> TimingSession::GroupTimesBy(Basis basis) const {
  std::vector<RoundTimes> times;
  for (const Group& group : groups_) {
    const auto& [first, second, third, fourth] = group.blocks;
    if (group.clean() || basis == Basis::kAllGroups) {
      times.push_back(group.times());
    } else if (basis == Basis::kCleanPairs) {
      if (first.clean && second.clean) times.push_back({first.mean, second.mean});
      if (third.clean && fourth.clean) times.push_back({fourth.mean, third.mean});
    }
  }
  return times;
}

std::vector<double> TimingSession::RatiosBy(Basis basis) const {
  std::vector<double> ratios;
  for (const RoundTimes& times : GroupTimesBy(basis)) {
    ratios.push_back(times.reference_ns / times.candidate_ns);
  }
  return ratios;
}

double TimingSession::call_ns(Side side) const { return call_ns_[Index(side)]; }

std::vector<double> TimingSession::Ratios() const { return RatiosBy(basis()); }

std::vector<double> TimingSession::CallTimes(Side side) const {
  const Basis by = basis();
  std::vector<double> times;
  for (const Group& group : groups_) {
    for (size_t i = 0; i < kGroup.size(); ++i) {
      const TimedBlock& block = group.blocks[i];
      const bool counts =
          by == Basis::kAllGroups || group.clean() || (by == Basis::kCleanPairs && block.clean);
      if (kGroup[i] == side && counts) {
        times.insert(times.end(), block.calls_ns.begin(), block.calls_ns.end());
      }
    }
  }
  return times;
}

Ratio TimingSession::Estimate() const {
  return MedianInterval(Ratios(), options_.confidence, kRunningResamples);
}

}  // namespace kernelcast::worker
