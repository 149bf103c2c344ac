#ifndef KERNELCAST_COMMON_RPC_STREAM_WRITER_H_
#define KERNELCAST_COMMON_RPC_STREAM_WRITER_H_

#include <grpcpp/grpcpp.h>

#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "common/rpc/status_conversion.h"

namespace kernelcast {
namespace rpc_internal {

// What a StreamCore asks of the stream that it belongs to.
template <class Response>
class StreamOperations {
 public:
  virtual void StartReading() = 0;
  virtual void StartWriting(const Response& response) = 0;
  virtual void FinishStream(const std::optional<absl::Status>& status) = 0;

 protected:
  ~StreamOperations() = default;
};

// The state of one server stream, which the stream shares with its senders: answers come from threads
// that know nothing of the stream's end. Decides under its mutex which gRPC operation is due and marks
// it as running, so that whoever found it due may start it after unlocking: the stream cannot be
// finished, hence not deleted, before the operation's end has been reported here.
//
//   open --half-close, FinishWith--> ending --all answered and written--> finished
//     \------------------ cancelled, failed write ---------write ended-->/
template <class Response>
class StreamCore {
 public:
  using Operations = StreamOperations<Response>;

  // `max_in_flight` = 0: a stream without requests.
  StreamCore(Operations* stream, size_t max_in_flight)
      : stream_(stream), max_in_flight_(max_in_flight) {}

  void Send(Response response) {
    std::unique_lock lock(mutex_);
    if (!dead()) {
      queue_.push_back(std::move(response));
      Proceed(lock);
    }
  }

  void FinishWith(absl::Status status) {
    std::unique_lock lock(mutex_);
    if (!final_status_.has_value()) {
      final_status_ = std::move(status);
      Proceed(lock);
    }
  }

  bool open() const {
    const std::lock_guard lock(mutex_);
    return !dead();
  }

  // From here on: for the stream's own reactions.

  void Start() {
    std::unique_lock lock(mutex_);
    Proceed(lock);
  }

  // True: a request is to be handled, and ReadyToRead to be called after that.
  bool ReadDone(bool ok) {
    std::unique_lock lock(mutex_);
    if (ok && !dead() && !final_status_.has_value()) {
      ++unanswered_;
      return true;
    }
    reading_ = false;
    requests_ended_ = requests_ended_ || !ok;
    Proceed(lock);
    return false;
  }
  void ReadyToRead() {
    std::unique_lock lock(mutex_);
    reading_ = false;
    Proceed(lock);
  }

  void WriteDone() {
    std::unique_lock lock(mutex_);
    writing_ = false;
    if (unanswered_ > 0) {
      --unanswered_;
    }
    Proceed(lock);
  }

  // True the first time, unless the stream is finished already: the caller then tells its owner, and
  // calls Start after that.
  bool Cancel() {
    const std::lock_guard lock(mutex_);
    if (dead()) {
      return false;
    }
    cancelled_ = true;
    queue_.clear();
    return true;
  }

  // Holds back writes and the end until Release; false if there is no room or nothing more to produce.
  bool HoldToProduce() {
    const std::lock_guard lock(mutex_);
    if (dead() || held_ || writing_ || !queue_.empty() || final_status_.has_value()) {
      return false;
    }
    held_ = true;
    return true;
  }
  void Release() {
    std::unique_lock lock(mutex_);
    held_ = false;
    Proceed(lock);
  }

 private:
  bool dead() const { return cancelled_ || finished_; }

  bool all_done() const {
    return queue_.empty() && unanswered_ == 0 && (requests_ended_ || final_status_.has_value());
  }

  // Starts what is due. Outside the stream's reactions, during which it cannot be deleted, that is one
  // operation at most: only reactions make a read due.
  void Proceed(std::unique_lock<std::mutex>& lock) {
    const bool idle = !writing_ && !held_;
    const bool write = idle && !dead() && !queue_.empty();
    const bool read = !reading_ && !dead() && !requests_ended_ && !final_status_.has_value() &&
                      unanswered_ < max_in_flight_;
    const bool finish = idle && !write && !finished_ && (cancelled_ || all_done());
    std::optional<absl::Status> status;  // none: cancelled
    if (finish && !cancelled_) {
      status = final_status_.value_or(absl::OkStatus());
    }
    if (write) {
      current_ = std::move(queue_.front());
      queue_.pop_front();
      writing_ = true;
    }
    reading_ = reading_ || read;
    finished_ = finished_ || finish;
    lock.unlock();
    if (read) {
      stream_->StartReading();
    }
    if (write) {
      stream_->StartWriting(current_);
    }
    if (finish) {
      stream_->FinishStream(status);
    }
  }

  // Constant after construction. Alive while an operation is marked as running.
  Operations* const stream_;
  const size_t max_in_flight_;

  mutable std::mutex mutex_;  // guards what follows
  std::deque<Response> queue_;
  Response current_;  // being written; then not guarded but owned by the write
  bool reading_ = false;  // also while a request is being handled
  bool writing_ = false;
  bool held_ = false;
  bool requests_ended_ = false;
  bool cancelled_ = false;
  bool finished_ = false;
  std::optional<absl::Status> final_status_;
  size_t unanswered_ = 0;  // requests whose answer has not been written yet
};

}  // namespace rpc_internal

// The right to write to one stream: a copyable value that may be used on any thread and may outlive the
// stream; what it sends then is dropped.
template <class Response>
class StreamSender {
 public:
  explicit StreamSender(std::shared_ptr<rpc_internal::StreamCore<Response>> core)
      : core_(std::move(core)) {}

  void Send(Response response) const { core_->Send(std::move(response)); }

  // Ends the stream with `status` once everything has been written; on a BidiStream, once every request
  // read so far has been answered too: no more are read. The first status counts.
  void FinishWith(absl::Status status) const { core_->FinishWith(std::move(status)); }

  // False once the client has left or the stream has ended.
  bool open() const { return core_->open(); }

 private:
  // Shared: the stream and those who answer on it end in either order.
  std::shared_ptr<rpc_internal::StreamCore<Response>> core_;
};

// A stream of requests, each of which is answered once, in any order, from any thread. Ends with OK when
// the client has half-closed and every answer is written. While `max_in_flight` requests are unanswered
// or their answers unwritten, no further request is read: that, and nothing else, bounds the memory of a
// stream whose reader is slow. Deletes itself.
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

  // At most once, when the client has left, its deadline has passed or the server shuts down before the
  // stream was finished. Answers sent from now on are dropped. Must not block. May run beside OnRequest.
  virtual void OnCancelled() {}

  // As sender().Send.
  void Send(Response response) { core_->Send(std::move(response)); }

  grpc::CallbackServerContext* context() const { return context_; }

 private:
  void OnReadDone(bool ok) final {
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
  void StartWriting(const Response& response) final { this->StartWrite(&response); }
  void FinishStream(const std::optional<absl::Status>& status) final {
    this->Finish(FinishStatus(context_, status ? *status : CancellationStatus(*context_)));
  }

  grpc::CallbackServerContext* const context_;
  const std::shared_ptr<rpc_internal::StreamCore<Response>> core_;
  Request request_;
};

// A stream of messages to the client, of which any thread sends some through sender() and at last calls
// FinishWith. Messages are queued without bound; a producer that could go ahead of its reader instead
// produces in OnWritable. Deletes itself.
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

  // Called when the stream is up and again each time that everything sent has been written: time to send
  // some more, from here or later from elsewhere. What is sent from here is written after it returns.
  // Never beside itself; must not block.
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
    if (core_->HoldToProduce()) {
      OnWritable();
      core_->Release();
    }
  }

  void Cancel() {
    if (core_->Cancel()) {
      OnCancelled();
      core_->Start();
    }
  }

  rpc_internal::StreamOperations<Response>* Operations() { return this; }
  void StartReading() final {}
  void StartWriting(const Response& response) final { this->StartWrite(&response); }
  void FinishStream(const std::optional<absl::Status>& status) final {
    this->Finish(FinishStatus(context_, status ? *status : CancellationStatus(*context_)));
  }

  grpc::CallbackServerContext* const context_;
  const std::shared_ptr<rpc_internal::StreamCore<Response>> core_;
};

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_RPC_STREAM_WRITER_H_
