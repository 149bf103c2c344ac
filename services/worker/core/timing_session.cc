#include "services/worker/core/timing_session.h"

#include <algorithm>
#include <cmath>

#include "services/worker/core/statistics.h"

namespace kernelcast::worker {
namespace {

constexpr Side kGroup[] = {Side::kCandidate, Side::kReference, Side::kReference, Side::kCandidate};
constexpr int kGroupBlocks = 4;
constexpr int kMaxCallsInBlock = 4096;
// What an interval of the median needs at the very least.
constexpr int kFewestGroups = 3;
// Intervals while sampling need not be as smooth as the one that is reported.
constexpr int kRunningResamples = 200;

int Index(Side side) { return side == Side::kCandidate ? 0 : 1; }

}  // namespace

TimingSession::TimingSession(const MeasureOptions& options, const PrecisionOptions& precision,
                             double candidate_call_ns, double reference_call_ns)
    : options_(options), precision_(precision), call_ns_{candidate_call_ns, reference_call_ns} {}

TimingSession::Block TimingSession::Next() const {
  if (!stop_reason_.empty()) {
    return {.finished = true};
  }
  const Side side = kGroup[position_];
  const double call_ns = std::max(1.0, call_ns_[Index(side)]);
  const auto calls = static_cast<double>(precision_.block_ns) / call_ns;
  return {.side = side, .calls = static_cast<int>(std::clamp(calls, 1.0, double{kMaxCallsInBlock}))};
}

bool TimingSession::IsWild(Side side, double median) const {
  const std::vector<double>& medians = block_medians_[Index(side)];
  return medians.size() >= 4 && median > options_.wild_factor * Median(medians);
}

void TimingSession::Add(const BlockTimes& block) {
  const Side side = kGroup[position_];
  ++blocks_;
  elapsed_ns_ += block.elapsed_ns;
  if (!block.calls_ns.empty()) {
    const double median = Median(block.calls_ns);
    if (block.wait_share > options_.max_wait_share || IsWild(side, median)) {
      ++discarded_blocks_;
      open_.discarded = true;
    }
    open_.medians[Index(side)].push_back(median);
    std::vector<double>& calls = open_.calls[Index(side)];
    calls.insert(calls.end(), block.calls_ns.begin(), block.calls_ns.end());
    block_medians_[Index(side)].push_back(median);
    call_ns_[Index(side)] = Median(block_medians_[Index(side)]);
  } else {
    open_.discarded = true;
  }
  if (++position_ == kGroupBlocks) {
    position_ = 0;
    FinishGroup();
  }
}

void TimingSession::FinishGroup() {
  const std::vector<double>& candidate = open_.medians[0];
  const std::vector<double>& reference = open_.medians[1];
  if (candidate.size() == 2 && reference.size() == 2 && candidate[0] + candidate[1] > 0 &&
      reference[0] + reference[1] > 0) {
    open_.ratio = (reference[0] + reference[1]) / (candidate[0] + candidate[1]);
    groups_.push_back(std::move(open_));
  }
  open_ = Group();

  const std::vector<const Group*> counted = Counted();
  const Ratio estimate = Estimate();
  const double half_width = RelativeHalfWidth(estimate);
  half_widths_.push_back(half_width);
  int64_t samples[2] = {0, 0};
  double time_ns = 0;
  for (const Group* group : counted) {
    for (int side = 0; side < 2; ++side) {
      samples[side] += std::ssize(group->calls[side]);
      for (const double call : group->calls[side]) {
        time_ns += call;
      }
    }
  }
  const bool enough = std::ssize(counted) >= precision_.min_groups &&
                      std::min(samples[0], samples[1]) >= precision_.min_samples &&
                      time_ns >= static_cast<double>(precision_.min_time_ns);
  if (enough && half_width <= precision_.half_width) {
    stop_reason_ = "precision";
  } else if (elapsed_ns_ >= precision_.cap_ns && std::ssize(groups_) >= kFewestGroups) {
    stop_reason_ = "time_cap";
  } else if (elapsed_ns_ >= 4 * precision_.cap_ns) {
    stop_reason_ = "time_cap";
  } else if (enough && HasPlateaued(half_widths_, options_.plateau_groups)) {
    stop_reason_ = "plateau";
  }
}

std::vector<const TimingSession::Group*> TimingSession::Counted() const {
  std::vector<const Group*> clean;
  std::vector<const Group*> all;
  for (const Group& group : groups_) {
    all.push_back(&group);
    if (!group.discarded) {
      clean.push_back(&group);
    }
  }
  // The median over all groups stands up to some disturbed ones; too few clean ones do not.
  const bool capped = elapsed_ns_ >= precision_.cap_ns;
  return capped && std::ssize(clean) < precision_.min_groups ? all : clean;
}

std::vector<double> TimingSession::Ratios() const {
  std::vector<double> ratios;
  for (const Group* group : Counted()) {
    ratios.push_back(group->ratio);
  }
  return ratios;
}

std::vector<double> TimingSession::CallTimes(Side side) const {
  std::vector<double> times;
  for (const Group* group : Counted()) {
    const std::vector<double>& calls = group->calls[Index(side)];
    times.insert(times.end(), calls.begin(), calls.end());
  }
  return times;
}

Ratio TimingSession::Estimate() const {
  const ShapeRatios one = {Ratios()};
  return BootstrapSpeedup({&one, 1}, options_.confidence, kRunningResamples);
}

}  // namespace kernelcast::worker
