#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_CORE_BACKGROUND_THREAD_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_CORE_BACKGROUND_THREAD_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

namespace kernelcast::orchestrator {

// Runs blocking tasks, such as reading the log or parsing a problem, in order on its own thread,
// because reactors must not block. Thread-safe. The destructor drops tasks that have not started.
class BackgroundThread {
 public:
  BackgroundThread() : thread_([this] { Run(); }) {}
  ~BackgroundThread() {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_one();
    thread_.join();
  }
  BackgroundThread(const BackgroundThread&) = delete;
  BackgroundThread& operator=(const BackgroundThread&) = delete;

  void Post(std::function<void()> task) {
    {
      std::lock_guard lock(mutex_);
      tasks_.push_back(std::move(task));
    }
    wake_.notify_one();
  }

 private:
  void Run() {
    std::unique_lock lock(mutex_);
    while (true) {
      wake_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
      if (stopping_) return;
      std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      task();
      task = nullptr;  // destroy what it holds without the lock
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> tasks_;
  bool stopping_ = false;
  std::thread thread_;  // last: uses the other members
};

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CORE_BACKGROUND_THREAD_H_
