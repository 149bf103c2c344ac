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
#include "common/rpc/status_conversion.h"
#include "common/rpc/stream_core.h"
#include "common/rpc/stream_limit.h"

namespace kernelcast {

namespace rpc_internal {

// A message that is followed by another one is not flushed separately.
inline grpc::WriteOptions WriteOptionsFor(bool more) {
  grpc::WriteOptions options;
  if (more) options.set_buffer_hint();
  return options;
}

}  // namespace rpc_internal

// Handle for writing to one stream. A copyable value that may be used on any thread and may outlive
// the stream; messages sent after the stream's end are dropped.
template <class Response>
class StreamSender {
 public:
  explicit StreamSender(std::shared_ptr<rpc_internal::StreamCore<Response>> core)
      : core_(std::move(core)) {}

  void Send(Response response) const { core_->Send(std::move(response)); }

  // Ends the stream with `status` once everything has been written. The first status wins.
  void FinishWith(absl::Status status) const { core_->FinishWith(std::move(status)); }

  // False once the client is gone or the stream has ended.
  bool open() const { return core_->open(); }

 private:
  // Shared, because the stream and its senders end in any order.
  std::shared_ptr<rpc_internal::StreamCore<Response>> core_;
};

// A stream of messages to the client. Any thread may send through sender(); finally one calls
// FinishWith. The queue is unbounded; a producer that may outrun its reader should produce in
// OnWritable. A stream above the limits of stream_limit.h ends at once with RESOURCE_EXHAUSTED.
// Deletes itself.
template <class Response>
class WriteStream : public grpc::ServerWriteReactor<Response>,
                    private rpc_internal::StreamOperations<Response> {
 public:
  explicit WriteStream(grpc::CallbackServerContext* context)
      : context_(context),
        permit_(*context),
        core_(std::make_shared<rpc_internal::StreamCore<Response>>(Operations(),
                                                                   /*max_in_flight=*/0)) {
    core_->HoldToProduce();  // released when gRPC knows the stream
    if (!permit_.status().ok()) core_->FinishWith(permit_.status());
    this->StartSendInitialMetadata();
  }

  StreamSender<Response> sender() const { return StreamSender<Response>(core_); }

 protected:
  ~WriteStream() override = default;

  // Called when the stream is up, and again whenever everything sent has been written. May send
  // more messages, now or later. Messages sent from here are written after it returns. Calls never
  // overlap. Must not block.
  virtual void OnWritable() {}

  // Called at most once, if the client leaves, its deadline passes or the server shuts down before
  // the stream is finished. Later messages are dropped. Must not block. May run concurrently with
  // OnWritable.
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
    // Keeps the core alive: when resumed from a pause, the stream may end in the meantime.
    const auto core = core_;
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

  // Number of writes before a pause. While writes complete at once, a callback thread of gRPC does
  // not poll connections. As many such streams as there are threads would not notice that their
  // clients are gone.
  static constexpr uint32_t kBeforePause = 64;

  grpc::CallbackServerContext* const context_;
  const StreamPermit permit_;
  const std::shared_ptr<rpc_internal::StreamCore<Response>> core_;
  uint32_t produced_ = 0;
  std::unique_ptr<grpc::Alarm> pause_;
};

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_RPC_STREAM_WRITER_H_
