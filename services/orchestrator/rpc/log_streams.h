#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_RPC_LOG_STREAMS_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_RPC_LOG_STREAMS_H_

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "kernelcast/v1/orchestrator.pb.h"
#include "services/orchestrator/core/background_thread.h"
#include "services/orchestrator/core/engine.h"
#include "services/orchestrator/core/event_store.h"

namespace kernelcast::orchestrator {

// The streams that are fed from the log: a page at a time, on a thread of its own, whenever
// everything sent before has been written, so that a slow reader costs a page of memory.
// Thread-safe. Held by each of its streams too; whoever made it must be the last to let it go.
class LogStreams : public std::enable_shared_from_this<LogStreams> {
 public:
  // Both must outlive the streams, for which `owner`, which may be null, is held.
  LogStreams(Engine* engine, const EventStore* store, std::shared_ptr<const void> owner = nullptr);
  ~LogStreams();
  LogStreams(const LogStreams&) = delete;
  LogStreams& operator=(const LogStreams&) = delete;

  // The events of a search from a sequence number on, live until the search is closed.
  grpc::ServerWriteReactor<v1::SearchEvent>* Watch(grpc::CallbackServerContext* context,
                                                   const std::string& search_id,
                                                   uint64_t from_sequence);
  // The records settled so far.
  grpc::ServerWriteReactor<v1::ExportRecord>* Export(grpc::CallbackServerContext* context,
                                                     const v1::ExportRequest& request);

  // Streams that wait for new events end with UNAVAILABLE, now and from now on.
  void BeginDrain();

  // Runs a task on the thread.
  void Post(std::function<void()> task) { thread_.Post(std::move(task)); }

  // One stream's place in the log. Used on the thread alone.
  class Cursor {
   public:
    virtual ~Cursor() = default;
    // Sends the next page, or the end. False if there is nothing to send now.
    virtual bool SendPage() = 0;
    virtual void End(const absl::Status& status) = 0;
    virtual bool open() const = 0;
  };

  // Sends the cursor's next page as soon as there is one.
  void Feed(const std::shared_ptr<Cursor>& cursor);
  void Forget(const std::shared_ptr<Cursor>& cursor);

 private:
  void WakeWaiting();

  // Shared with whoever runs the engine: streams end in their own time.
  const std::shared_ptr<const void> owner_;
  Engine* const engine_;
  const EventStore* const store_;
  int listener_ = -1;

  std::mutex mutex_;
  // Shared with the streams and the thread's tasks: a stream ends while its page is being read.
  std::set<std::shared_ptr<Cursor>> waiting_ ABSL_GUARDED_BY(mutex_);
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;

  BackgroundThread thread_;  // last: its tasks use the others
};

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_RPC_LOG_STREAMS_H_
