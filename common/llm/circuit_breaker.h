#ifndef KERNELCAST_COMMON_LLM_CIRCUIT_BREAKER_H_
#define KERNELCAST_COMMON_LLM_CIRCUIT_BREAKER_H_

#include <array>
#include <cstdint>

#include "common/llm/stats.h"

namespace kernelcast::llm {

// Stops requests to an endpoint that is down.
//
//   closed --consecutive failures, or a share of them--> open --time--> half open: one probe
//     ^                                                   ^                |         |
//     +------------------ it succeeded -------------------|----------------+         |
//                                                         +------- it failed: longer +
//
// All times are from one monotonic clock. Not thread-safe.
class CircuitBreaker {
 public:
  struct Options {
    int consecutive_failures = 5;
    double failure_ratio = 0.5;
    int min_samples = 20;
    int64_t open_ns = 1'000'000'000;
    int64_t open_cap_ns = 30'000'000'000;
  };

  explicit CircuitBreaker(const Options& options) : options_(options) {}

  // Half open means that a probe is in progress.
  BreakerState state() const { return state_; }
  // Whether a request may be sent now. If the breaker is not closed, that request is the probe.
  bool Allows(int64_t now_ns) const {
    return state_ == BreakerState::kClosed ||
           (state_ == BreakerState::kOpen && now_ns >= open_until_ns_);
  }
  // When an open breaker allows a probe.
  int64_t open_until_ns() const { return open_until_ns_; }

  // Call when a request that Allows permitted is sent. Returns true if it is the probe; pass that
  // on when it ends.
  bool OnStart();
  // The endpoint responded, even if it refused the request.
  void OnSuccess(int64_t now_ns, bool probe);
  void OnFailure(int64_t now_ns, bool probe);
  // The request ended without information about the endpoint's health.
  void OnAbandoned(bool probe);
  // Opens at once for the longest time, for failures that need an operator.
  void Trip(int64_t now_ns);

 private:
  static constexpr int64_t kBucketNs = 1'000'000'000;
  static constexpr int kBuckets = 10;
  struct Bucket {
    int64_t second = -1;
    int successes = 0;
    int failures = 0;
  };

  Bucket& BucketAt(int64_t now_ns);
  bool TooManyFailures(int64_t now_ns) const;
  void Open(int64_t now_ns, int64_t for_ns);

  const Options options_;
  BreakerState state_ = BreakerState::kClosed;
  int64_t open_until_ns_ = 0;
  int64_t open_for_ns_ = 0;  // 0: closed
  int consecutive_failures_ = 0;
  std::array<Bucket, kBuckets> window_{};
};

}  // namespace kernelcast::llm

#endif  // KERNELCAST_COMMON_LLM_CIRCUIT_BREAKER_H_
