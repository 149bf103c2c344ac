#include "services/worker/rpc/job_queue.h"

#include <utility>

#include "common/base/clock.h"

namespace kernelcast::worker {

JobQueue::JobQueue(int threads) {
  for (int i = 0; i < threads; ++i) {
    threads_.emplace_back([this] { Work(); });
  }
}

JobQueue::~JobQueue() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  for (std::thread& thread : threads_) {
    thread.join();
  }
}

void JobQueue::Submit(Job job) {
  {
    const std::lock_guard lock(mutex_);
    if (!draining_) {
      waiting_.push_back({std::move(job), Clock::Real().MonotonicNs()});
      changed_.notify_one();
      return;
    }
  }
  job(0);
}

void JobQueue::Drain() {
  std::deque<Waiting> waiting;
  {
    const std::lock_guard lock(mutex_);
    draining_ = true;
    waiting.swap(waiting_);
  }
  for (Waiting& next : waiting) {
    next.job(Clock::Real().MonotonicNs() - next.since_ns);
  }
}

void JobQueue::Work() {
  for (;;) {
    Waiting next;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
      if (waiting_.empty()) {
        return;
      }
      next = std::move(waiting_.front());
      waiting_.pop_front();
    }
    next.job(Clock::Real().MonotonicNs() - next.since_ns);
  }
}

}  // namespace kernelcast::worker
