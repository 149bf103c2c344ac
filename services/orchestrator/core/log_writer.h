#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_CORE_LOG_WRITER_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_CORE_LOG_WRITER_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
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
};

// Appends batches to a store on a thread of its own, one at a time. Write, Take and Wait are for
// one thread, which is told by `on_written`, on the writer's, that there is something to take.
class LogWriter {
 public:
  struct Written {
    LogBatch batch;
    absl::Status status;  // as of EventStore::Append
  };

  // The store must outlive the writer.
  LogWriter(EventStore* store, std::function<void()> on_written);
  // Waits for the append under way.
  ~LogWriter();
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;

  // From Write until its batch is taken.
  bool busy() const { return busy_; }
  // Not while it is busy, and not without events.
  void Write(LogBatch batch);
  // Nothing where nothing is written yet.
  std::optional<Written> Take();
  // Only while it is busy.
  Written Wait();

 private:
  void Run();

  EventStore* const store_;
  const std::function<void()> on_written_;
  bool busy_ = false;  // its user's own

  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<LogBatch> batch_ ABSL_GUARDED_BY(mutex_);
  std::optional<Written> written_ ABSL_GUARDED_BY(mutex_);

  std::thread thread_;  // last: it uses the others
};

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CORE_LOG_WRITER_H_
