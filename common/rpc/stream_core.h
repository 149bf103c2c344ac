#ifndef KERNELCAST_COMMON_RPC_STREAM_CORE_H_
#define KERNELCAST_COMMON_RPC_STREAM_CORE_H_

#include <algorithm>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/status/status.h"

// The part of stream_writer.h without gRPC, so that it can be tested separately.

namespace kernelcast::rpc_internal {

// Operations that a StreamCore requests from its stream.
template <class Response>
class StreamOperations {
 public:
  virtual void StartReading() = 0;
  // `more`: another write follows at once, so this one need not be flushed.
  virtual void StartWriting(const Response& response, bool more) = 0;
  virtual void FinishStream(const std::optional<absl::Status>& status) = 0;

 protected:
  ~StreamOperations() = default;
};

// Sends each answer as one message.
template <class Response>
struct OneByOne {
  using Answer = Response;
  // Moves at least one answer into the message and returns how many.
  static size_t Pack(std::deque<Answer>& answers, Response& message) {
    message = std::move(answers.front());
    answers.pop_front();
    return 1;
  }
};

// The state of one server stream. The stream shares it with its senders, because answers come from
// threads that do not know when the stream ends. Under its mutex it decides which gRPC operation is
// due and marks it as running. The thread that found it due may then start it after unlocking: the
// stream cannot finish, and so cannot be deleted, before the end of the operation is reported here.
//
//   open --half-close, FinishWith--> ending --all answered and written--> finished
//     \------------------ cancelled, failed write ---------write ended-->/
template <class Response, class Packing = OneByOne<Response>>
class StreamCore {
 public:
  using Operations = StreamOperations<Response>;
  using Answer = typename Packing::Answer;

  // `max_in_flight` = 0: a stream without requests.
  StreamCore(Operations* stream, size_t max_in_flight)
      : stream_(stream), max_in_flight_(max_in_flight) {}

  void Send(Answer answer) {
    std::unique_lock lock(mutex_);
    if (!dead()) {
      queue_.push_back(std::move(answer));
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

  // The methods below are only for the stream's own reactions.

  void Start() {
    std::unique_lock lock(mutex_);
    Proceed(lock);
  }

  // Returns true if a message with this many requests must be handled; then call ReadyToRead
  // afterwards.
  bool ReadDone(bool ok, size_t requests = 1) {
    std::unique_lock lock(mutex_);
    if (ok && !dead() && !final_status_.has_value()) {
      unanswered_ += requests;
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
    unanswered_ -= std::min(unanswered_, written_);
    Proceed(lock);
  }

  // Returns true the first time, unless the stream is already finished. The caller must then notify
  // its owner and afterwards call Start.
  bool Cancel() {
    const std::lock_guard lock(mutex_);
    if (dead()) {
      return false;
    }
    cancelled_ = true;
    queue_.clear();
    return true;
  }

  // Delays writes and the end until Release, so that answers sent in the meantime go out together.
  void Hold() {
    const std::lock_guard lock(mutex_);
    held_ = true;
  }
  // Like Hold. Returns false if there is no room or nothing more to produce.
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

  // Starts the due operations. Outside the stream's reactions, during which it cannot be deleted,
  // this is at most one, because only reactions make a read due.
  void Proceed(std::unique_lock<std::mutex>& lock) {
    const bool idle = !writing_ && !held_;
    const bool write = idle && !dead() && !queue_.empty();
    const bool read = !reading_ && !dead() && !requests_ended_ && !final_status_.has_value() &&
                      unanswered_ < max_in_flight_;
    const bool finish = idle && !write && !finished_ && (cancelled_ || all_done());
    std::optional<absl::Status> status;  // empty: cancelled
    if (finish && !cancelled_) {
      status = final_status_.value_or(absl::OkStatus());
    }
    bool more = false;
    if (write) {
      written_ = Packing::Pack(queue_, current_);
      writing_ = true;
      more = !queue_.empty();
    }
    reading_ = reading_ || read;
    finished_ = finished_ || finish;
    lock.unlock();
    if (read) {
      stream_->StartReading();
    }
    if (write) {
      stream_->StartWriting(current_, more);
    }
    if (finish) {
      stream_->FinishStream(status);
    }
  }

  // Constant after construction. Alive while an operation is marked as running.
  Operations* const stream_;
  const size_t max_in_flight_;

  mutable std::mutex mutex_;  // guards the members below
  std::deque<Answer> queue_;
  Response current_;      // being written; owned by the write, not by the mutex
  size_t written_ = 0;    // number of answers in current_
  bool reading_ = false;  // also true while a request is being handled
  bool writing_ = false;
  bool held_ = false;
  bool requests_ended_ = false;
  bool cancelled_ = false;
  bool finished_ = false;
  std::optional<absl::Status> final_status_;
  size_t unanswered_ = 0;  // requests whose answer has not been written yet
};

}  // namespace kernelcast::rpc_internal

#endif  // KERNELCAST_COMMON_RPC_STREAM_CORE_H_
