#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_RPC_LOG_STREAMS_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_RPC_LOG_STREAMS_H_

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "common/base/work_queue.h"
#include "kernelcast/v1/orchestrator.pb.h"
#include "services/orchestrator/core/engine.h"
#include "services/orchestrator/core/event_store.h"

namespace kernelcast::orchestrator {

// Streams that read from the log. Each reads one page at a time on a background thread, whenever
// everything sent before has been written, so a slow reader costs one page of memory. Thread-safe.
// Each stream holds a reference to this object, but its creator must release it last.
class LogStreams : public std::enable_shared_from_this<LogStreams> {
 public:
  // `engine` and `store` must outlive the streams, which hold `owner` (may be null) for that
  // purpose.
  LogStreams(Engine* engine, const EventStore* store, std::shared_ptr<const void> owner = nullptr);
  ~LogStreams();
  LogStreams(const LogStreams&) = delete;
  LogStreams& operator=(const LogStreams&) = delete;

  // Streams the events of a search from a sequence number on, then new ones until the search is
  // closed. OUT_OF_RANGE: the sequence number is beyond that of the log's next event.
  grpc::ServerWriteReactor<v1::SearchEvent>* Watch(grpc::CallbackServerContext* context,
                                                   const std::string& search_id,
                                                   uint64_t from_sequence);
  // Streams the records settled so far. OUT_OF_RANGE as Watch.
  grpc::ServerWriteReactor<v1::ExportRecord>* Export(grpc::CallbackServerContext* context,
                                                     const v1::ExportRequest& request);

  // Ends streams that wait for new events with UNAVAILABLE, now and in the future.
  void BeginDrain();

  // Position of one stream in the log. Used on the background thread only.
  class Cursor {
   public:
    virtual ~Cursor() = default;
    // Sends the next page, or ends the stream. Returns false if there is nothing to send now.
    virtual bool SendPage() = 0;
    virtual void End(const absl::Status& status) = 0;
    virtual bool open() const = 0;
  };

  // Sends the cursor's next page as soon as there is one.
  void Feed(const std::shared_ptr<Cursor>& cursor);
  void Forget(const std::shared_ptr<Cursor>& cursor);

 private:
  void WakeWaiting();

  // Shared with the owner of the engine, because streams may outlive it.
  const std::shared_ptr<const void> owner_;
  Engine* const engine_;
  const EventStore* const store_;
  int listener_ = -1;

  std::mutex mutex_;
  // Shared with the streams and the thread's tasks, because a stream may end while its page is
  // read.
  std::set<std::shared_ptr<Cursor>> waiting_ ABSL_GUARDED_BY(mutex_);
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;

  WorkQueue thread_;  // last: its tasks use the other members
};

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_RPC_LOG_STREAMS_H_
