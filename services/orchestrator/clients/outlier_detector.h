#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_CLIENTS_OUTLIER_DETECTOR_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_CLIENTS_OUTLIER_DETECTOR_H_

#include <algorithm>
#include <bit>
#include <cstdint>

#include "absl/time/time.h"

namespace kernelcast::orchestrator {

// Outcomes of a peer's latest calls, and whether the peer is ejected for them. A peer is
//
//   in --Eject--> out --time passes--> on probation --a call succeeds--> in
//                     ^------------------------'  a call fails: out, for twice as long
//
// Not thread-safe.
class OutlierDetector {
 public:
  struct Options {
    // Consecutive failures, or share of failures among the latest calls, that make a peer
    // suspicious.
    int failures_in_row = 3;
    int least_calls = 8;
    double failure_share = 0.5;
    // Minimum ratio of its share of failures to that of the other peers.
    double disproportion = 2;
    absl::Duration first_pause = absl::Seconds(1);
    absl::Duration longest_pause = absl::Minutes(1);
  };
  static constexpr int kLatest = 32;

  // Counts over the latest calls.
  int calls() const { return calls_; }
  int failures() const { return std::popcount(latest_); }

  void Add(bool failed) {
    latest_ = latest_ << 1 | (failed ? 1U : 0U);
    calls_ = std::min(calls_ + 1, kLatest);
    in_row_ = failed ? in_row_ + 1 : 0;
    // A long run of successes shortens the next pause, step by step.
    if (failed) {
      well_ = 0;
    } else if (++well_ == kLatest) {
      well_ = 0;
      times_out_ = std::max(times_out_ - 1, 0);
    }
  }

  // Whether it fails much more often than the other peers, for which `others_failures` of the
  // latest `others_calls` calls failed.
  bool Suspicious(const Options& options, int others_calls, int others_failures) const {
    if (in_row_ < options.failures_in_row &&
        (calls_ < options.least_calls || failures() < options.failure_share * calls_)) {
      return false;
    }
    const double own = static_cast<double>(failures()) / calls_;
    const double others =
        others_calls > 0 ? static_cast<double>(others_failures) / others_calls : 0;
    return own >= options.disproportion * others;
  }

  // Ejects the peer, for longer each time. Returns the duration.
  absl::Duration Eject(const Options& options, absl::Time now) {
    const absl::Duration pause =
        std::min(options.first_pause * (1 << std::min(times_out_, 20)), options.longest_pause);
    ++times_out_;
    out_ = true;
    until_ = now + pause;
    return pause;
  }

  bool out(absl::Time now) const { return out_ && now < until_; }
  bool on_probation(absl::Time now) const { return out_ && now >= until_; }
  bool in() const { return !out_; }

  // Its probe succeeded. Earlier outcomes are forgotten, except for the length of the next pause.
  void Readmit() {
    out_ = false;
    calls_ = in_row_ = well_ = 0;
    latest_ = 0;
  }

 private:
  uint32_t latest_ = 0;  // one bit per call, 1: failed
  int calls_ = 0;
  int in_row_ = 0;
  int well_ = 0;
  int times_out_ = 0;
  bool out_ = false;
  absl::Time until_ = absl::InfinitePast();
};

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CLIENTS_OUTLIER_DETECTOR_H_
