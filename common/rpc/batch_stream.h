#ifndef KERNELCAST_COMMON_RPC_BATCH_STREAM_H_
#define KERNELCAST_COMMON_RPC_BATCH_STREAM_H_

#include <grpcpp/grpcpp.h>

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/callback_scope.h"
#include "common/rpc/status_conversion.h"
#include "common/rpc/stream_core.h"
#include "common/rpc/stream_limit.h"
#include "common/rpc/stream_writer.h"

namespace kernelcast {

namespace rpc_internal {

// A message is full at this many entries or more than this many bytes.
inline constexpr size_t kBatchEntries = 64;
inline constexpr size_t kBatchBytes = size_t{1} << 20;
// A server accepts at most this many requests per message, so that many tiny ones cannot make it
// allocate many times the size of the message.
inline constexpr size_t kMostRequestsPerMessage = 4096;

// Packs all available answers into one message. `Protocol` names the types of one method. It is a
// BatchProtocol (common/convert/batch_protocols.h):
//
//   using Request = v1::CompileStreamRequest;
//   using Response = v1::CompileStreamReply;
//   using Answer = v1::CompileReply;
//   static size_t Requests(const Request& message);  // number of requests
//   static Answer* Add(Response& message);           // appends an empty one
template <class Protocol>
struct Together {
  using Answer = typename Protocol::Answer;
  static size_t Pack(std::deque<Answer>& answers, typename Protocol::Response& message) {
    message.Clear();
    size_t entries = 0;
    for (size_t bytes = 0; !answers.empty() && entries < kBatchEntries && bytes < kBatchBytes;
         ++entries) {
      bytes += answers.front().ByteSizeLong();
      *Protocol::Add(message) = std::move(answers.front());
      answers.pop_front();
    }
    return entries;
  }
};

}  // namespace rpc_internal

// Handle for answering on a BatchStream. A copyable value that may be used on any thread and may
// outlive the stream; answers sent after the stream's end are dropped.
template <class Protocol>
class BatchSender {
 public:
  using Core =
      rpc_internal::StreamCore<typename Protocol::Response, rpc_internal::Together<Protocol>>;
  explicit BatchSender(std::shared_ptr<Core> core) : core_(std::move(core)) {}
  // Each Send answers one request.
  void Send(typename Protocol::Answer answer) const { core_->Send(std::move(answer)); }
  // False once the client is gone or the stream has ended.
  bool open() const { return core_->open(); }

 private:
  // Shared, because the stream and its senders end in any order.
  std::shared_ptr<Core> core_;
};

// A stream of requests whose messages carry one or more requests or answers, which amortises the
// cost per message over thousands of requests per second. Each request is answered once, in any
// order, from any thread. Messages are sent without waiting for them to fill. Ends with OK when the
// client has half-closed and every answer is written.
//
// Reads no further message while `max_in_flight` or more requests are unanswered or their answers
// unwritten; only this bounds the memory of a stream with a slow reader. A stream above the limits
// of stream_limit.h ends at once with RESOURCE_EXHAUSTED. A message with too many requests ends the
// stream with INVALID_ARGUMENT. Deletes itself.
template <class Protocol>
class BatchStream
    : public grpc::ServerBidiReactor<typename Protocol::Request, typename Protocol::Response>,
      private rpc_internal::StreamOperations<typename Protocol::Response> {
 public:
  using Request = typename Protocol::Request;
  using Response = typename Protocol::Response;

  BatchStream(grpc::CallbackServerContext* context, size_t max_in_flight)
      : context_(context),
        permit_(*context),
        core_(std::make_shared<typename BatchSender<Protocol>::Core>(
            Operations(), max_in_flight > 0 ? max_in_flight : 1)) {
    permit_.status().ok() ? core_->Start() : core_->FinishWith(permit_.status());
  }

  BatchSender<Protocol> sender() const { return BatchSender<Protocol>(core_); }

 protected:
  ~BatchStream() override = default;

  // Called with one message at a time, in order. Must not block. `message` is valid during the
  // call. Answers given before it returns are sent together.
  virtual void OnRequests(const Request& message) = 0;
  // Called at most once, if the client leaves, its deadline passes or the server shuts down before
  // the stream is finished. Later answers are dropped. Must not block. May run concurrently with
  // OnRequests.
  virtual void OnCancelled() {}

  grpc::CallbackServerContext* context() const { return context_; }

 private:
  void OnReadDone(bool ok) final {
    const CallbackScope scope;
    const size_t requests = ok ? Protocol::Requests(request_) : 0;
    if (requests > rpc_internal::kMostRequestsPerMessage) {
      core_->FinishWith(absl::InvalidArgumentError(
          absl::StrCat("requests: has ", requests, " entries; at most ",
                       rpc_internal::kMostRequestsPerMessage, " are allowed in one message")));
    }
    if (core_->ReadDone(ok, requests)) {
      core_->Hold();
      OnRequests(request_);
      core_->Release();
      core_->ReadyToRead();
    }
  }
  void OnWriteDone(bool ok) final {
    if (!ok) {
      Cancel();
    }
    core_->WriteDone();
  }
  void OnCancel() final { Cancel(); }
  void OnDone() final { delete this; }

  void Cancel() {
    if (core_->Cancel()) {
      OnCancelled();
      core_->Start();
    }
  }

  rpc_internal::StreamOperations<Response>* Operations() { return this; }
  void StartReading() final { this->StartRead(&request_); }
  void StartWriting(const Response& response, bool more) final {
    this->StartWrite(&response, rpc_internal::WriteOptionsFor(more));
  }
  void FinishStream(const std::optional<absl::Status>& status) final {
    this->Finish(FinishStatus(context_, status ? *status : CancellationStatus(*context_)));
  }

  grpc::CallbackServerContext* const context_;
  const StreamPermit permit_;
  const std::shared_ptr<typename BatchSender<Protocol>::Core> core_;
  Request request_;
};

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_RPC_BATCH_STREAM_H_
