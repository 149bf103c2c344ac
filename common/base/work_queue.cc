#include "common/base/work_queue.h"

#include <utility>

#include "common/base/clock.h"

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
      waiting_.push_back({std::move(work), Clock::Real().MonotonicNs()});
      changed_.notify_one();
      return true;
    }
  }
  work(0);
  return true;
}

void WorkQueue::Drain() {
  std::deque<Waiting> waiting;
  {
    const std::lock_guard lock(mutex_);
    draining_ = true;
    waiting.swap(waiting_);
  }
  for (Waiting& next : waiting) next.work(Clock::Real().MonotonicNs() - next.since_ns);
}

void WorkQueue::Run() {
  for (;;) {
    Waiting next;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      next = std::move(waiting_.front());
      waiting_.pop_front();
    }
    next.work(Clock::Real().MonotonicNs() - next.since_ns);
  }
}

}  // namespace kernelcast
