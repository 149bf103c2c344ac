#ifndef KERNELCAST_COMMON_BASE_DELAYED_WORK_H_
#define KERNELCAST_COMMON_BASE_DELAYED_WORK_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

namespace kernelcast {

// Runs work after a delay, on a thread of its own. The thread starts with the first work.
// Thread-safe.
class DelayedWork {
 public:
  using Work = std::function<void()>;

  DelayedWork() = default;
  // Drops work that is not due, and joins the thread.
  ~DelayedWork();
  DelayedWork(const DelayedWork&) = delete;
  DelayedWork& operator=(const DelayedWork&) = delete;

  // The work must not block.
  void Submit(int64_t delay_ns, Work work);

 private:
  using Clock = std::chrono::steady_clock;

  void Run();

  std::mutex mutex_;
  std::condition_variable changed_;
  // State below is protected by mutex_.
  std::multimap<Clock::time_point, Work> waiting_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_BASE_DELAYED_WORK_H_
