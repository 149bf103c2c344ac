#include "services/worker/core/cancel.h"

#include <algorithm>
#include <chrono>

namespace kernelcast::worker {

void CancelToken::Cancel() {
  const std::lock_guard lock(mutex_);
  cancelled_ = true;
  changed_.notify_all();
}

absl::Status CancelToken::Check() const {
  {
    const std::lock_guard lock(mutex_);
    if (cancelled_) {
      return absl::CancelledError("the caller cancelled");
    }
  }
  if (deadline_ns_ != kNoDeadline && clock_.MonotonicNs() >= deadline_ns_) {
    return absl::DeadlineExceededError("the caller's deadline has passed");
  }
  return absl::OkStatus();
}

void CancelToken::SleepFor(int64_t duration_ns) const {
  if (deadline_ns_ != kNoDeadline) {
    duration_ns = std::min(duration_ns, deadline_ns_ - clock_.MonotonicNs());
  }
  if (duration_ns <= 0) {
    return;
  }
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::nanoseconds(duration_ns), [this] { return cancelled_; });
}

}  // namespace kernelcast::worker
