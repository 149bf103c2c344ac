#include "common/base/work_queue.h"

#include <utility>

namespace kernelcast {

WorkQueue::WorkQueue(int threads, size_t max_waiting) : max_waiting_(max_waiting) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Run(); });
}

WorkQueue::~WorkQueue() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

bool WorkQueue::Submit(Work work) {
  {
    const std::lock_guard lock(mutex_);
    if (!draining_) {
      if (waiting_.size() >= max_waiting_) return false;
      waiting_.push_back(std::move(work));
      changed_.notify_one();
      return true;
    }
  }
  work();
  return true;
}

void WorkQueue::Drain() {
  std::deque<Work> waiting;
  {
    const std::lock_guard lock(mutex_);
    draining_ = true;
    waiting.swap(waiting_);
  }
  for (const Work& next : waiting) next();
}

void WorkQueue::Run() {
  for (;;) {
    Work next;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      next = std::move(waiting_.front());
      waiting_.pop_front();
    }
    next();
  }
}

}  // namespace kernelcast
