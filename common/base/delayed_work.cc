#include "common/base/delayed_work.h"

#include <utility>

namespace kernelcast {

DelayedWork::~DelayedWork() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void DelayedWork::Submit(int64_t delay_ns, Work work) {
  {
    const std::lock_guard lock(mutex_);
    waiting_.emplace(Clock::now() + std::chrono::nanoseconds(delay_ns), std::move(work));
    if (!thread_.joinable()) thread_ = std::thread([this] { Run(); });
  }
  changed_.notify_one();
}

void DelayedWork::Run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (waiting_.empty()) {
      changed_.wait(lock);
      continue;
    }
    const auto next = waiting_.begin();
    if (next->first > Clock::now()) {
      changed_.wait_until(lock, next->first);
      continue;
    }
    const Work work = std::move(next->second);
    waiting_.erase(next);
    lock.unlock();
    work();
    lock.lock();
  }
}

}  // namespace kernelcast
