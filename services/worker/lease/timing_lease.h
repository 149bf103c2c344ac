#ifndef KERNELCAST_SERVICES_WORKER_LEASE_TIMING_LEASE_H_
#define KERNELCAST_SERVICES_WORKER_LEASE_TIMING_LEASE_H_

#include <cstdint>
#include <memory>
#include <semaphore>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/worker/core/cancel.h"

namespace kernelcast::worker {

// Serialises measurements on this machine: by a mutex within the process, and by a file lock
// between processes. If the holder is stopped, a waiting process takes the lease over by replacing
// the file, which requires permission to remove it. Thread-safe.
class TimingLease {
 public:
  // A holder that is stopped (SIGSTOP) for longer than this loses the lease.
  static constexpr int64_t kStoppedLimitNs = 2'000'000'000;

  // Creates `path` if it does not exist. With "" the lease covers only this process. INTERNAL: the
  // file cannot be opened.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<TimingLease>> Open(
      const std::string& path, int64_t stopped_limit_ns = kStoppedLimitNs);
  ~TimingLease();

  // May be destroyed on another thread.
  class Held {
   public:
    Held(Held&& other) noexcept;
    Held& operator=(Held&&) = delete;
    ~Held();

    // UNAVAILABLE: another process has taken the lease over; discard what was timed.
    [[nodiscard]] absl::Status Check() const;

   private:
    friend class TimingLease;
    explicit Held(TimingLease* lease) : lease_(lease) {}
    TimingLease* lease_;
  };
  // Blocks until the lease is free. CANCELLED or DEADLINE_EXCEEDED: the token was stopped first.
  // INTERNAL: the file was removed and cannot be created again.
  [[nodiscard]] absl::StatusOr<Held> Acquire(const CancelToken& cancel);

 private:
  TimingLease(std::string path, int fd, int64_t stopped_limit_ns)
      : path_(std::move(path)), stopped_limit_ns_(stopped_limit_ns), fd_(fd) {}

  absl::Status LockFile(const CancelToken& cancel);
  // Returns false if the file at path_ has been replaced.
  bool IsCurrent() const;
  absl::Status Reopen();
  // Replaces the file unless another process already has.
  void TakeOver(int holder);
  void Release();

  const std::string path_;
  const int64_t stopped_limit_ns_;
  // Not a mutex: another thread may release it.
  std::binary_semaphore free_{1};
  int fd_;  // used by the holder
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_LEASE_TIMING_LEASE_H_
