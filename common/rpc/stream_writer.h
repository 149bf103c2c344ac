#ifndef KERNELCAST_COMMON_RPC_STREAM_WRITER_H_
#define KERNELCAST_COMMON_RPC_STREAM_WRITER_H_

#include <grpc/support/time.h>
#include <grpcpp/alarm.h>
#include <grpcpp/grpcpp.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "common/base/callback_scope.h"
#include "common/rpc/status_conversion.h"
#include "common/rpc/stream_core.h"

namespace kernelcast {

namespace rpc_internal {

// What is followed by more goes out with it.
inline grpc::WriteOptions WriteOptionsFor(bool more) {
  grpc::WriteOptions options;
  if (more) options.set_buffer_hint();
  return options;
}

}  // namespace rpc_internal

// The right to write to one stream: a copyable value that may be used on any thread and may outlive
// the stream; what it sends then is dropped.
template <class Response>
class StreamSender {
 public:
  explicit StreamSender(std::shared_ptr<rpc_internal::StreamCore<Response>> core)
      : core_(std::move(core)) {}

  void Send(Response response) const { core_->Send(std::move(response)); }

  // Ends the stream with `status` once everything has been written; on a BidiStream, once every
  // request read so far has been answered too: no more are read. The first status counts.
  void FinishWith(absl::Status status) const { core_->FinishWith(std::move(status)); }

  // False once the client has left or the stream has ended.
  bool open() const { return core_->open(); }

 private:
  // Shared: the stream and those who answer on it end in either order.
  std::shared_ptr<rpc_internal::StreamCore<Response>> core_;
};

// A stream of requests, each of which is answered once, in any order, from any thread. Ends with OK
// when the client has half-closed and every answer is written. While `max_in_flight` requests are
// unanswered or their answers unwritten, no further request is read: that, and nothing else, bounds
// the memory of a stream whose reader is slow. Deletes itself.
template <class Request, class Response>
class BidiStream : public grpc::ServerBidiReactor<Request, Response>,
                   private rpc_internal::StreamOperations<Response> {
 public:
  BidiStream(grpc::CallbackServerContext* context, size_t max_in_flight)
      : context_(context),
        core_(std::make_shared<rpc_internal::StreamCore<Response>>(
            Operations(), max_in_flight > 0 ? max_in_flight : 1)) {
    core_->Start();
  }

  // For whoever answers. Send answers one request.
  StreamSender<Response> sender() const { return StreamSender<Response>(core_); }

 protected:
  ~BidiStream() override = default;

  // One request at a time, in order. Must not block. The request is gone when it returns.
  virtual void OnRequest(const Request& request) = 0;

  // At most once, when the client has left, its deadline has passed or the server shuts down before
  // the stream was finished. Answers sent from now on are dropped. Must not block. May run beside
  // OnRequest.
  virtual void OnCancelled() {}

  // As sender().Send.
  void Send(Response response) { core_->Send(std::move(response)); }

  grpc::CallbackServerContext* context() const { return context_; }

 private:
  void OnReadDone(bool ok) final {
    const CallbackScope scope;
    if (core_->ReadDone(ok)) {
      OnRequest(request_);
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
  const std::shared_ptr<rpc_internal::StreamCore<Response>> core_;
  Request request_;
};

// A stream of messages to the client, of which any thread sends some through sender() and at last
// calls FinishWith. Messages are queued without bound; a producer that could go ahead of its reader
// instead produces in OnWritable. Deletes itself.
template <class Response>
class WriteStream : public grpc::ServerWriteReactor<Response>,
                    private rpc_internal::StreamOperations<Response> {
 public:
  explicit WriteStream(grpc::CallbackServerContext* context)
      : context_(context),
        core_(std::make_shared<rpc_internal::StreamCore<Response>>(Operations(),
                                                                   /*max_in_flight=*/0)) {
    core_->HoldToProduce();  // until the stream is known to gRPC
    this->StartSendInitialMetadata();
  }

  StreamSender<Response> sender() const { return StreamSender<Response>(core_); }

 protected:
  ~WriteStream() override = default;

  // Called when the stream is up and again each time that everything sent has been written: time to
  // send some more, from here or later from elsewhere. What is sent from here is written after it
  // returns. Never beside itself; must not block.
  virtual void OnWritable() {}

  // As in BidiStream. May run beside OnWritable.
  virtual void OnCancelled() {}

  void Send(Response response) { core_->Send(std::move(response)); }
  void FinishWith(absl::Status status) { core_->FinishWith(std::move(status)); }

  grpc::CallbackServerContext* context() const { return context_; }

 private:
  void OnSendInitialMetadataDone(bool ok) final {
    if (!ok) {
      Cancel();
    }
    core_->Release();
    Produce();
  }
  void OnWriteDone(bool ok) final {
    if (!ok) {
      Cancel();
    }
    core_->WriteDone();
    Produce();
  }
  void OnCancel() final { Cancel(); }
  void OnDone() final { delete this; }

  void Produce() {
    if (!core_->HoldToProduce()) return;
    if (++produced_ % kBeforePause == 0) {
      pause_ = std::make_unique<grpc::Alarm>();
      pause_->Set(gpr_now(GPR_CLOCK_REALTIME), [this](bool) { ProduceHeld(); });
      return;
    }
    ProduceHeld();
  }
  void ProduceHeld() {
    const auto core = core_;  // in a pause this is no reaction: the stream may end meanwhile
    OnWritable();
    core->Release();
  }

  void Cancel() {
    if (core_->Cancel()) {
      OnCancelled();
      core_->Start();
    }
  }

  rpc_internal::StreamOperations<Response>* Operations() { return this; }
  void StartReading() final {}
  void StartWriting(const Response& response, bool more) final {
    this->StartWrite(&response, rpc_internal::WriteOptionsFor(more));
  }
  void FinishStream(const std::optional<absl::Status>& status) final {
    this->Finish(FinishStatus(context_, status ? *status : CancellationStatus(*context_)));
  }

  // As long as a write completes at once, gRPC's callback thread, which may be the only one, looks
  // at no connection, not even at whether the client has left.
  static constexpr uint32_t kBeforePause = 64;

  grpc::CallbackServerContext* const context_;
  const std::shared_ptr<rpc_internal::StreamCore<Response>> core_;
  uint32_t produced_ = 0;
  std::unique_ptr<grpc::Alarm> pause_;
};

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_RPC_STREAM_WRITER_H_
