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

// Events that become durable together, and the effects that wait for that.
struct LogBatch {
  std::vector<std::unique_ptr<Event>> events;
  std::vector<AppendEntry> entries;  // one per event
  std::vector<std::function<void()>> effects;
  // Request ids of the evaluations that the events settle.
  std::vector<std::string> settled;
  // Sequence number of the newest event when the batch was made. The event may be in an earlier
  // batch.
  uint64_t last_sequence = 0;

  bool empty() const { return events.empty() && effects.empty(); }
  // Appends a later batch.
  void Append(LogBatch later);
};

struct LogWriterOptions {
  // Minimum time between the starts of two appends, so that at high rates several candidates share
  // one. A single batch after a pause is not delayed. Zero: none.
  std::chrono::nanoseconds interval = std::chrono::milliseconds(1);
  // How long events without effects, which nobody waits for, may wait for others to share an
  // append.
  std::chrono::nanoseconds max_delay = std::chrono::milliseconds(2);
  // With this many events, an append is not delayed further.
  size_t large = 1024;
};

// Appends batches to a store, in order, on its own thread. Batches added during an append, or
// before the next one is due, are appended together. After a failed append nothing more is
// appended. Add, Take, Flush and idle must be called by one thread at a time.
class LogWriter {
 public:
  struct Written {
    LogBatch batch;
    absl::Status status;  // as returned by EventStore::Append
  };

  // `on_written` is called on the writer's thread when Take has something to return. The store must
  // outlive the writer.
  LogWriter(const LogWriterOptions& options, EventStore* store, std::function<void()> on_written);
  // Appends the added batches first.
  ~LogWriter();
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;

  // Whether nothing waits to be appended or taken.
  bool idle() const;
  // Adds a batch, with or without events. A batch with effects is not delayed beyond the interval.
  void Add(LogBatch batch);
  // Returns the batches written since the last call, in order.
  std::vector<Written> Take();
  // Appends the added batches at once and takes them.
  std::vector<Written> Flush();

 private:
  using SteadyTime = std::chrono::steady_clock::time_point;

  // Time of the next append.
  SteadyTime DueAt() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Run();

  const LogWriterOptions options_;
  EventStore* const store_;
  const std::function<void()> on_written_;

  mutable std::mutex mutex_;
  std::condition_variable added_;
  std::condition_variable written_or_failed_;
  LogBatch pending_ ABSL_GUARDED_BY(mutex_);
  // Latest time for appending the pending batch, apart from the interval.
  SteadyTime pending_until_ ABSL_GUARDED_BY(mutex_);
  SteadyTime began_ ABSL_GUARDED_BY(mutex_);  // start of the latest append
  // How long the thread will sleep. Adding work that is due later need not wake it.
  SteadyTime sleeps_until_ ABSL_GUARDED_BY(mutex_);
  std::vector<Written> written_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool failed_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  std::thread thread_;  // last: uses the other members
};

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CORE_LOG_WRITER_H_
