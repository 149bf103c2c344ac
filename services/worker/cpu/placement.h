#ifndef KERNELCAST_SERVICES_WORKER_CPU_PLACEMENT_H_
#define KERNELCAST_SERVICES_WORKER_CPU_PLACEMENT_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/worker/core/cancel.h"

namespace kernelcast::worker {

// Which cores the judge and its runners are on; -1: wherever the scheduler puts them.
struct Placement {
  int judge_cpu = -1;
  int runner_cpu = -1;

  // Two cores of those that this process may use, not threads of one core where there is a choice.
  // With one core the two share it, and the judge sleeps while a call runs.
  static Placement Choose();
  bool alone() const { return runner_cpu < 0 || judge_cpu == runner_cpu; }
};

// Pins the calling thread and raises its priority while it lives, as far as that is permitted.
class TimingPriority {
 public:
  explicit TimingPriority(const Placement& placement);
  ~TimingPriority();
  TimingPriority(const TimingPriority&) = delete;
  TimingPriority& operator=(const TimingPriority&) = delete;

 private:
  struct Saved;
  std::unique_ptr<Saved> saved_;
};

// How long a task was ready to run but had no core: whatever it was doing meanwhile took longer by
// that. Not thread-safe.
class WaitMeter {
 public:
  static WaitMeter OfProcess(int pid);
  static WaitMeter OfThisThread();
  WaitMeter() = default;
  ~WaitMeter();
  WaitMeter(WaitMeter&& other) noexcept;
  WaitMeter& operator=(WaitMeter&& other) noexcept;

  // So far; 0 where the system does not say.
  int64_t WaitedNs() const;

 private:
  explicit WaitMeter(const std::string& path);
  int fd_ = -1;
};

// Priority of what is being timed, and of compilers, as nice values.
inline constexpr int kTimingNice = -10;
inline constexpr int kCompileNice = 10;

// One at a time on this machine: within the process by a mutex, between processes by a lock on a
// file. Thread-safe.
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

#endif  // KERNELCAST_SERVICES_WORKER_CPU_PLACEMENT_H_
