#include "services/forecaster/rpc/work_queue.h"

#include <utility>

namespace kernelcast::forecaster {

WorkQueue::WorkQueue(size_t max_waiting)
    : max_waiting_(max_waiting), thread_([this] {
        for (;;) {
          std::function<void()> work;
          {
            std::unique_lock lock(mutex_);
            changed_.wait(lock, [this] { return stop_ || !queue_.empty(); });
            if (queue_.empty()) return;
            work = std::move(queue_.front());
            queue_.pop_front();
          }
          work();
        }
      }) {}

WorkQueue::~WorkQueue() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

bool WorkQueue::Submit(std::function<void()> work) {
  {
    std::lock_guard lock(mutex_);
    if (queue_.size() >= max_waiting_) return false;
    queue_.push_back(std::move(work));
  }
  changed_.notify_one();
  return true;
}

}  // namespace kernelcast::forecaster
