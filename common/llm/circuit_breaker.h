#ifndef KERNELCAST_COMMON_LLM_CIRCUIT_BREAKER_H_
#define KERNELCAST_COMMON_LLM_CIRCUIT_BREAKER_H_

#include <array>
#include <cstdint>

#include "common/llm/stats.h"

namespace kernelcast::llm {

// Keeps requests from an endpoint that is down.
//
//   closed --failures in a row, or a share of them--> open --time--> half open: one probe
//     ^                                                ^                |         |
//     +---------------- it succeeded ------------------|----------------+         |
//                                                      +------- it failed: longer +
//
// Times are of one monotonic clock. Not thread-safe.
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

  // Half open means that a probe is under way.
  BreakerState state() const { return state_; }
  // Whether a request may be sent now. Where it is not closed, that request is the probe.
  bool Allows(int64_t now_ns) const {
    return state_ == BreakerState::kClosed ||
           (state_ == BreakerState::kOpen && now_ns >= open_until_ns_);
  }
  // When an open breaker allows a probe.
  int64_t open_until_ns() const { return open_until_ns_; }

  // A request that Allows let through is sent. True: it is the probe; say so when it ends.
  bool OnStart();
  // The endpoint worked, also if it refused the request.
  void OnSuccess(int64_t now_ns, bool probe);
  void OnFailure(int64_t now_ns, bool probe);
  // The request ended without telling anything about the endpoint.
  void OnAbandoned(bool probe);
  // Opens at once and for the longest time: the endpoint will not serve us until somebody acts.
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
