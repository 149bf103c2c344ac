#include "services/orchestrator/core/log_writer.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace kernelcast::orchestrator {
namespace {

template <class T>
void MoveTo(std::vector<T>& earlier, std::vector<T>& later) {
  if (earlier.empty()) {
    earlier = std::move(later);
  } else {
    std::move(later.begin(), later.end(), std::back_inserter(earlier));
  }
}

}  // namespace

void LogBatch::Append(LogBatch later) {
  MoveTo(events, later.events);
  MoveTo(entries, later.entries);
  MoveTo(effects, later.effects);
  MoveTo(settled, later.settled);
  last_sequence = later.last_sequence;
}

LogWriter::LogWriter(const LogWriterOptions& options, EventStore* store,
                     std::function<void()> on_written)
    : options_(options),
      store_(store),
      on_written_(std::move(on_written)),
      thread_([this] { Run(); }) {}

LogWriter::~LogWriter() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  added_.notify_one();
  thread_.join();
}

bool LogWriter::idle() const {
  const std::lock_guard lock(mutex_);
  return pending_.empty() && !writing_ && written_.empty();
}

LogWriter::SteadyTime LogWriter::DueAt() const {
  if (pending_.empty()) return SteadyTime::max();
  return std::max(pending_until_, began_ + options_.interval);
}

void LogWriter::Add(LogBatch batch) {
  bool wake = false;
  {
    const std::lock_guard lock(mutex_);
    const SteadyTime now = std::chrono::steady_clock::now();
    if (pending_.empty()) pending_until_ = now + options_.max_delay;
    pending_.Append(std::move(batch));
    if (!pending_.effects.empty() || pending_.events.size() >= options_.large) pending_until_ = now;
    wake = DueAt() < sleeps_until_;
  }
  if (wake) added_.notify_one();
}

std::vector<LogWriter::Written> LogWriter::Take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(written_, {});
}

std::vector<LogWriter::Written> LogWriter::Flush() {
  std::unique_lock lock(mutex_);
  // The earliest possible time makes everything due now.
  pending_until_ = SteadyTime::min();
  began_ = SteadyTime::min();
  added_.notify_one();
  written_or_failed_.wait(lock, [this] { return failed_ || (pending_.empty() && !writing_); });
  return std::exchange(written_, {});
}

void LogWriter::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    while (!stopping_) {
      const SteadyTime now = std::chrono::steady_clock::now();
      const SteadyTime due = DueAt();
      if (now >= due) break;
      // Until the interval is over the thread checks by itself.
      const SteadyTime interval_ends = began_ + options_.interval;
      sleeps_until_ = now < interval_ends ? std::min(due, interval_ends) : due;
      if (sleeps_until_ == SteadyTime::max()) {
        added_.wait(lock);
      } else {
        added_.wait_until(lock, sleeps_until_);
      }
      sleeps_until_ = SteadyTime::min();
    }
    if (pending_.empty() || failed_) return;
    Written next{std::exchange(pending_, {}), absl::OkStatus()};
    writing_ = true;
    began_ = std::chrono::steady_clock::now();
    lock.unlock();
    if (!next.batch.entries.empty()) next.status = store_->Append(next.batch.entries).status();
    // Freed here to relieve the caller's thread.
    next.batch.entries.clear();
    next.batch.events.clear();
    lock.lock();
    writing_ = false;
    failed_ = !next.status.ok();
    written_.push_back(std::move(next));
    lock.unlock();
    written_or_failed_.notify_all();
    on_written_();
    lock.lock();
    if (failed_) return;
  }
}

}  // namespace kernelcast::orchestrator
