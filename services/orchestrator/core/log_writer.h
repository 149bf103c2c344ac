#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_CORE_LOG_WRITER_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_CORE_LOG_WRITER_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "services/orchestrator/core/event_store.h"

namespace kernelcast::orchestrator {

// Events that become durable together, and what waits for that.
struct LogBatch {
  std::vector<std::unique_ptr<Event>> events;
  std::vector<AppendEntry> entries;  // of the events
  std::vector<std::function<void()>> effects;
  // Evaluations that the events settle, by request.
  std::vector<std::string> settled;
  // Of the newest event at the time of the batch, which may be in an earlier one.
  uint64_t last_sequence = 0;

  bool empty() const { return events.empty() && effects.empty(); }
  // Adds what comes after it.
  void Append(LogBatch later);
};

struct LogWriterOptions {
  // From the beginning of one append to the next there is at least so much time, so that at high
  // rates several candidates share one. What comes alone does not wait. Zero: none.
  std::chrono::nanoseconds interval = std::chrono::milliseconds(1);
  // How long events without effects, which nobody waits for, may wait for others to be written
  // with.
  std::chrono::nanoseconds max_delay = std::chrono::milliseconds(2);
  // With so many events nothing waits for more.
  size_t large = 1024;
};

// Appends batches to a store, in order, on a thread of its own: what is added while it writes, or
// before the next append is due, is appended together. After an append that failed nothing more is
// appended. Add, Take, Flush and idle are for one thread at a time.
class LogWriter {
 public:
  struct Written {
    LogBatch batch;
    absl::Status status;  // as of EventStore::Append
  };

  // `on_written` is called on the writer's thread when there is something to take. The store must
  // outlive the writer.
  LogWriter(const LogWriterOptions& options, EventStore* store, std::function<void()> on_written);
  // Appends what was added.
  ~LogWriter();
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;

  // Nothing waits to be appended, or to be taken.
  bool idle() const;
  // With or without events. What has effects is waited for.
  void Add(LogBatch batch);
  // What has been written since, in order.
  std::vector<Written> Take();
  // Appends at once what was added, and takes it.
  std::vector<Written> Flush();

 private:
  using SteadyTime = std::chrono::steady_clock::time_point;

  // When the next append is.
  SteadyTime DueAt() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Run();

  const LogWriterOptions options_;
  EventStore* const store_;
  const std::function<void()> on_written_;

  mutable std::mutex mutex_;
  std::condition_variable added_;
  std::condition_variable written_or_failed_;
  LogBatch pending_ ABSL_GUARDED_BY(mutex_);
  // When it may be kept no longer, whatever the interval says of it.
  SteadyTime pending_until_ ABSL_GUARDED_BY(mutex_);
  SteadyTime began_ ABSL_GUARDED_BY(mutex_);  // the latest append
  // How long the thread would sleep: who adds what is due later need not wake it.
  SteadyTime sleeps_until_ ABSL_GUARDED_BY(mutex_);
  std::vector<Written> written_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool failed_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  std::thread thread_;  // last: it uses the others
};

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CORE_LOG_WRITER_H_
