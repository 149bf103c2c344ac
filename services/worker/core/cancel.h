#ifndef KERNELCAST_SERVICES_WORKER_CORE_CANCEL_H_
#define KERNELCAST_SERVICES_WORKER_CORE_CANCEL_H_

#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "absl/status/status.h"
#include "common/base/clock.h"

namespace kernelcast::worker {

// Stops work when the caller has cancelled or its deadline has passed. Thread-safe.
class CancelToken {
 public:
  static constexpr int64_t kNoDeadline = INT64_MAX;

  // `deadline_ns` is on `clock`'s monotonic clock.
  explicit CancelToken(int64_t deadline_ns = kNoDeadline, const Clock& clock = Clock::Real())
      : clock_(clock), deadline_ns_(deadline_ns) {}
  CancelToken(const CancelToken&) = delete;
  CancelToken& operator=(const CancelToken&) = delete;

  void Cancel();

  // Returns OK, CANCELLED or DEADLINE_EXCEEDED.
  absl::Status Check() const;
  bool stopped() const { return !Check().ok(); }
  int64_t deadline_ns() const { return deadline_ns_; }

  // Sleeps for at most `duration_ns`; returns early when cancelled.
  void SleepFor(int64_t duration_ns) const;

 private:
  const Clock& clock_;
  const int64_t deadline_ns_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool cancelled_ = false;
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CORE_CANCEL_H_
