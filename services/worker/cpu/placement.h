#ifndef KERNELCAST_SERVICES_WORKER_CPU_PLACEMENT_H_
#define KERNELCAST_SERVICES_WORKER_CPU_PLACEMENT_H_

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace kernelcast::worker {

// Cores of the judge and its runners. -1: any core.
struct Placement {
  int judge_cpu = -1;
  int runner_cpu = -1;

  // Chooses two of the cores that this process may use, if possible not two threads of one core.
  // With only one core the two share it, and the judge sleeps while a call runs.
  static Placement Choose();
  bool alone() const { return runner_cpu < 0 || judge_cpu == runner_cpu; }
};

// Pins the calling thread and raises its priority during its lifetime, as far as permitted.
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

// Runs functions on the runners' core, so that what they read and write is in that core's caches.
// The calling thread keeps its own core: a thread that moves away and back waits for its core on a
// busy machine, while other programs use the runners' caches. Not thread-safe.
class RunnerCore {
 public:
  explicit RunnerCore(const Placement& placement) : placement_(placement) {}
  ~RunnerCore();
  RunnerCore(const RunnerCore&) = delete;
  RunnerCore& operator=(const RunnerCore&) = delete;

  // Returns when `function` has ended. Runs it in this thread where the two share a core.
  void Run(const std::function<void()>& function);

 private:
  void Join();

  const Placement placement_;
  const std::function<void()>* function_ = nullptr;
  std::atomic<bool> ended_ = false;
  std::optional<pthread_t> thread_;
};

// Measures how long a task was ready to run but had no core, which lengthens the times measured in
// it. Not thread-safe.
class WaitMeter {
 public:
  static WaitMeter OfProcess(int pid);
  static WaitMeter OfThisThread();
  WaitMeter() = default;
  ~WaitMeter();
  WaitMeter(WaitMeter&& other) noexcept;
  WaitMeter& operator=(WaitMeter&& other) noexcept;

  // Total so far, or 0 if the system does not report it.
  int64_t WaitedNs() const;

 private:
  explicit WaitMeter(const std::string& path);
  int fd_ = -1;
};

// Nice value of the processes and threads that are being timed.
inline constexpr int kTimingNice = -10;

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CPU_PLACEMENT_H_
