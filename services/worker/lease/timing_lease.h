#ifndef KERNELCAST_SERVICES_WORKER_LEASE_TIMING_LEASE_H_
#define KERNELCAST_SERVICES_WORKER_LEASE_TIMING_LEASE_H_

#include <memory>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/worker/core/cancel.h"

namespace kernelcast::worker {

// Who measures, one at a time on this machine: within the process by a mutex, between processes by
// a lock on a file. Thread-safe.
class TimingLease {
 public:
  // `path` is made if it does not exist; "" leaves other processes out of account. INTERNAL: cannot
  // be opened.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<TimingLease>> Open(const std::string& path);
  ~TimingLease();

  class Held {
   public:
    Held(Held&& other) noexcept;
    Held& operator=(Held&&) = delete;
    ~Held();

   private:
    friend class TimingLease;
    explicit Held(TimingLease* lease) : lease_(lease) {}
    TimingLease* lease_;
  };
  // Waits. CANCELLED or DEADLINE_EXCEEDED when the token is stopped first.
  [[nodiscard]] absl::StatusOr<Held> Acquire(const CancelToken& cancel);

 private:
  explicit TimingLease(int fd) : fd_(fd) {}
  void Release();

  const int fd_;
  std::timed_mutex mutex_;
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_LEASE_TIMING_LEASE_H_
