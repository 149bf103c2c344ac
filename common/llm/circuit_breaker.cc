#include "common/llm/circuit_breaker.h"

#include <algorithm>

namespace kernelcast::llm {

bool CircuitBreaker::OnStart() {
  if (state_ == BreakerState::kClosed) return false;
  state_ = BreakerState::kHalfOpen;
  return true;
}

void CircuitBreaker::OnSuccess(int64_t now_ns, bool probe) {
  if (probe) {
    state_ = BreakerState::kClosed;
    open_for_ns_ = 0;
    window_.fill(Bucket{});
  }
  // Requests sent before the endpoint failed do not show that it has recovered.
  if (state_ != BreakerState::kClosed) return;
  consecutive_failures_ = 0;
  ++BucketAt(now_ns).successes;
}

void CircuitBreaker::OnFailure(int64_t now_ns, bool probe) {
  if (probe) {
    Open(now_ns, std::min(open_for_ns_ * 2, options_.open_cap_ns));
    return;
  }
  if (state_ != BreakerState::kClosed) return;
  ++consecutive_failures_;
  ++BucketAt(now_ns).failures;
  if (consecutive_failures_ >= options_.consecutive_failures || TooManyFailures(now_ns)) {
    Open(now_ns, options_.open_ns);
  }
}

void CircuitBreaker::OnAbandoned(bool probe) {
  if (probe) state_ = BreakerState::kOpen;
}

void CircuitBreaker::Trip(int64_t now_ns) { Open(now_ns, options_.open_cap_ns); }

CircuitBreaker::Bucket& CircuitBreaker::BucketAt(int64_t now_ns) {
  const int64_t second = now_ns / kBucketNs;
  Bucket& bucket = window_[static_cast<size_t>(second % kBuckets)];
  if (bucket.second != second) bucket = Bucket{second, 0, 0};
  return bucket;
}

bool CircuitBreaker::TooManyFailures(int64_t now_ns) const {
  int successes = 0;
  int failures = 0;
  for (const Bucket& bucket : window_) {
    if (bucket.second <= now_ns / kBucketNs - kBuckets) continue;
    successes += bucket.successes;
    failures += bucket.failures;
  }
  const int samples = successes + failures;
  return samples >= options_.min_samples && failures >= options_.failure_ratio * samples;
}

void CircuitBreaker::Open(int64_t now_ns, int64_t for_ns) {
  state_ = BreakerState::kOpen;
  open_for_ns_ = for_ns;
  open_until_ns_ = now_ns + for_ns;
  consecutive_failures_ = 0;
}

}  // namespace kernelcast::llm
