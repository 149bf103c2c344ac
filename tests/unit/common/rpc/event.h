#ifndef KERNELCAST_TESTS_UNIT_COMMON_RPC_EVENT_H_
#define KERNELCAST_TESTS_UNIT_COMMON_RPC_EVENT_H_

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace kernelcast {

// Counts reports from other threads, so that a test can wait for them.
class Event {
 public:
  void Notify() {
    const std::lock_guard lock(mutex_);
    ++count_;
    changed_.notify_all();
  }
  // Returns false if it has not happened `times` times within half a minute.
  bool Wait(int times = 1) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(30), [&] { return count_ >= times; });
  }
  int count() {
    const std::lock_guard lock(mutex_);
    return count_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int count_ = 0;
};

}  // namespace kernelcast

#endif  // KERNELCAST_TESTS_UNIT_COMMON_RPC_EVENT_H_
