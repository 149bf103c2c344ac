#include "services/orchestrator/core/log_writer.h"

#include <utility>

namespace kernelcast::orchestrator {

LogWriter::LogWriter(EventStore* store, std::function<void()> on_written)
    : store_(store), on_written_(std::move(on_written)), thread_([this] { Run(); }) {}

LogWriter::~LogWriter() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void LogWriter::Write(LogBatch batch) {
  busy_ = true;
  {
    const std::lock_guard lock(mutex_);
    batch_ = std::move(batch);
  }
  changed_.notify_all();
}

std::optional<LogWriter::Written> LogWriter::Take() {
  if (!busy_) return std::nullopt;
  const std::lock_guard lock(mutex_);
  if (!written_) return std::nullopt;
  busy_ = false;
  return std::exchange(written_, std::nullopt);
}

LogWriter::Written LogWriter::Wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return written_.has_value(); });
  busy_ = false;
  return *std::exchange(written_, std::nullopt);
}

void LogWriter::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || batch_.has_value(); });
    // What was given to it is written all the same.
    if (!batch_) return;
    LogBatch batch = *std::exchange(batch_, std::nullopt);
    lock.unlock();
    absl::Status status = store_->Append(batch.entries).status();
    // Freed here: the user's thread has enough to do.
    batch.entries.clear();
    batch.events.clear();
    lock.lock();
    written_ = Written{std::move(batch), std::move(status)};
    lock.unlock();
    changed_.notify_all();
    on_written_();
    lock.lock();
  }
}

}  // namespace kernelcast::orchestrator
