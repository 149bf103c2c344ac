#include "services/worker/cuda/target/parked_processes.h"

#include <chrono>

#include "common/base/clock.h"

namespace kernelcast::worker {

ParkedProcesses::ParkedProcesses(size_t most, int64_t idle_ns) : most_(most), idle_ns_(idle_ns) {
  if (enabled()) watcher_ = std::thread([this] { Watch(); });
}

ParkedProcesses::~ParkedProcesses() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  if (watcher_.joinable()) watcher_.join();
  EndAll();
}

size_t ParkedProcesses::size() const {
  const std::lock_guard lock(mutex_);
  return parked_.size();
}

ParkedProcesses::Batch ParkedProcesses::TakeLocked() {
  // All at once: the driver ends them side by side.
  for (const auto& process : parked_) process->Kill();
  return std::exchange(parked_, {});
}

ParkedProcesses::Batch ParkedProcesses::Park(std::unique_ptr<ParkedProcess> process) {
  const std::lock_guard lock(mutex_);
  parked_.push_back(std::move(process));
  changed_.notify_all();
  return parked_.size() >= most_ ? TakeLocked() : Batch();
}

void ParkedProcesses::EndAll() {
  Batch batch;
  {
    const std::lock_guard lock(mutex_);
    batch = TakeLocked();
  }
  batch.clear();
}

std::shared_ptr<void> ParkedProcesses::Hold() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !ending_; });
  ++held_;
  return {this, [this](void*) {
            const std::lock_guard released(mutex_);
            --held_;
            released_ns_ = Clock::Real().MonotonicNs();
            changed_.notify_all();
          }};
}

void ParkedProcesses::Watch() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (held_ > 0 || parked_.empty()) {
      changed_.wait(lock);
      continue;
    }
    const int64_t left_ns = released_ns_ + idle_ns_ - Clock::Real().MonotonicNs();
    if (left_ns > 0) {
      changed_.wait_for(lock, std::chrono::nanoseconds(left_ns));
      continue;
    }
    Batch batch = TakeLocked();
    ending_ = true;
    lock.unlock();
    batch.clear();
    lock.lock();
    ending_ = false;
    changed_.notify_all();
  }
}

}  // namespace kernelcast::worker
