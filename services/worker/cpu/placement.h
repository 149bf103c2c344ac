#ifndef KERNELCAST_SERVICES_WORKER_CPU_PLACEMENT_H_
#define KERNELCAST_SERVICES_WORKER_CPU_PLACEMENT_H_

#include <cstdint>
#include <memory>
#include <string>

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

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CPU_PLACEMENT_H_
