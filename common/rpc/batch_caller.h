#ifndef KERNELCAST_COMMON_RPC_BATCH_CALLER_H_
#define KERNELCAST_COMMON_RPC_BATCH_CALLER_H_

#include <grpcpp/alarm.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/support/client_callback.h>

#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/callback_scope.h"
#include "common/base/monotonic_time.h"
#include "common/rpc/batch_stream.h"
#include "common/rpc/status_conversion.h"

namespace kernelcast {

// Client side of a BatchStream: makes single calls over one stream whose messages carry several of
// them. Calls made while a message is being written are sent together in the next one. `Protocol`
// as in BatchStream, and in addition:
//
//   using Entry = v1::CompileRequest;             // a request; has set_request_id
//   static Entry* Add(Request& message);          // appends an empty one
//   static void SetTimeLeft(Request& message, absl::Duration time_left);
//   static int Answers(const Response& message);
//   static Answer* MutableAnswer(Response& message, int i);  // has request_id
//
// A stream is opened on demand and closed after 1 s without calls. It is replaced when it is
// old or its server stops reading, so that it does not delay a draining server. Thread-safe.
template <class Protocol>
class BatchCaller {
 public:
  using Request = typename Protocol::Request;
  using Response = typename Protocol::Response;
  using Entry = typename Protocol::Entry;
  using Answer = typename Protocol::Answer;
  // Opens the stream through the stub.
  using Open =
      std::function<void(grpc::ClientContext*, grpc::ClientBidiReactor<Request, Response>*)>;
  // Receives the answer, which it may move from, or null if the status is not OK.
  using Done = std::function<void(const absl::Status&, Answer*)>;

  explicit BatchCaller(Open open) : state_(std::make_shared<State>(std::move(open))) {}

  // Ends all pending calls with CANCELLED, asynchronously. May run inside a Done.
  ~BatchCaller() {
    const std::lock_guard lock(state_->mutex);
    BeginStop();
  }
  // Like the destructor, but returns after every Done has run. Must not be called from a Done.
  void Stop() {
    std::unique_lock lock(state_->mutex);
    BeginStop();
    state_->idle.wait(lock, [&] {
      return state_->streams.empty() && state_->alarm == nullptr && !state_->ticking;
    });
  }
  // Ends all pending calls with CANCELLED, asynchronously. Later calls use a new stream.
  void CancelAll() {
    const std::lock_guard lock(state_->mutex);
    for (Stream* stream : state_->streams) {
      Retire(stream);
      stream->context.TryCancel();
    }
  }
  BatchCaller(const BatchCaller&) = delete;
  BatchCaller& operator=(const BatchCaller&) = delete;

  // Sends `entry` under a new request id. Calls `done` once, on a gRPC thread.
  void Call(Entry entry, absl::Duration timeout, Done done) {
    std::unique_lock lock(state_->mutex);
    if (state_->stopping) {
      lock.unlock();
      done(absl::CancelledError("the caller is stopping"), nullptr);
      return;
    }
    Stream* stream = state_->current;
    const bool fresh = stream == nullptr;
    if (fresh) {
      stream = new Stream(state_);
      state_->streams.push_back(stream);
      state_->current = stream;
      ++stream->operations;
    }
    const uint64_t id = ++state_->last_id;
    stream->pending.emplace(id, Pending{std::move(done), MonotonicNow() + timeout});
    stream->queue.push_back(std::move(entry));
    stream->queue.back().set_request_id(absl::StrCat(id));
    stream->time_left = timeout;
    if (fresh) {
      if (state_->alarm == nullptr) SetAlarm(state_);
      lock.unlock();
      state_->open(&stream->context, stream);
      // For writes from this thread; removed when the stream is half-closed or ends.
      stream->AddHold();
      stream->StartRead(&stream->response);
      stream->StartCall();
      lock.lock();
      --stream->operations;
    }
    Proceed(stream, lock);
  }

  // Later calls use a new stream; the current one ends after its last answer. For servers that are
  // about to stop.
  void Renew() {
    std::unique_lock lock(state_->mutex);
    Stream* const stream = state_->current;
    if (stream == nullptr) return;
    Retire(stream);
    Proceed(stream, lock);
  }

 private:
  struct Pending {
    Done done;
    absl::Time deadline;
  };
  struct State;

  // Deletes itself. Members are protected by the state's mutex, except those that a running gRPC
  // operation uses.
  struct Stream final : grpc::ClientBidiReactor<Request, Response> {
    explicit Stream(std::shared_ptr<State> s) : state(std::move(s)), opened(MonotonicNow()) {}

    void OnWriteDone(bool ok) override {
      std::unique_lock lock(state->mutex);
      writing = false;
      if (!ok) Retire(this);
      broken = broken || !ok;
      Proceed(this, lock);
    }
    void OnReadDone(bool ok) override {
      const CallbackScope scope;
      if (!ok) {
        std::unique_lock lock(state->mutex);
        broken = true;
        Retire(this);
        Proceed(this, lock);
        return;
      }
      const int answers = Protocol::Answers(response);
      std::vector<Done> dones(static_cast<size_t>(answers));
      {
        std::lock_guard lock(state->mutex);
        for (int i = 0; i < answers; ++i) {
          const std::string& id = Protocol::MutableAnswer(response, i)->request_id();
          const auto found = pending.find(std::strtoull(id.c_str(), nullptr, 10));
          if (found == pending.end()) continue;  // the call timed out before
          dones[i] = std::move(found->second.done);
          pending.erase(found);
        }
      }
      for (int i = 0; i < answers; ++i) {
        if (dones[i]) dones[i](absl::OkStatus(), Protocol::MutableAnswer(response, i));
      }
      this->StartRead(&response);
    }
    void OnDone(const grpc::Status& grpc_status) override {
      absl::Status status = FromGrpc(grpc_status, context);
      if (status.ok()) status = absl::UnavailableError("the stream has ended");
      std::unordered_map<uint64_t, Pending> unanswered;
      {
        std::lock_guard lock(state->mutex);
        Retire(this);
        unanswered.swap(pending);
        if (state->stopping) status = absl::CancelledError("the caller is stopping");
      }
      for (auto& [id, call] : unanswered) call.done(status, nullptr);
      const std::shared_ptr<State> kept = state;
      {
        std::lock_guard lock(kept->mutex);
        std::erase(kept->streams, this);
        if (kept->streams.empty()) kept->idle.notify_all();
      }
      delete this;
    }

    const std::shared_ptr<State> state;  // shared with the caller and its alarm
    const absl::Time opened;
    grpc::ClientContext context;
    Request request;
    Response response;
    std::unordered_map<uint64_t, Pending> pending;
    std::deque<Entry> queue;
    absl::Duration time_left;
    // Calls between releasing the lock and calling gRPC. They need the stream alive and open.
    int operations = 0;
    bool writing = false;
    bool retired = false;      // takes no more calls
    bool half_closed = false;  // and the hold is removed
    bool broken = false;
    bool was_idle = false;  // at the last tick
  };

  // Constant after construction, except the members protected by the mutex.
  struct State {
    explicit State(Open o) : open(std::move(o)) {}
    const Open open;
    std::mutex mutex;
    std::condition_variable idle;
    Stream* current = nullptr;
    std::vector<Stream*> streams;
    std::unique_ptr<grpc::Alarm> alarm;
    uint64_t last_id = 0;
    bool ticking = false;
    bool stopping = false;
  };

  static constexpr absl::Duration kTick = absl::Seconds(1);
  static constexpr absl::Duration kMaxAge = absl::Minutes(1);

  void BeginStop() {
    state_->stopping = true;
    for (Stream* stream : state_->streams) stream->context.TryCancel();
    if (state_->alarm != nullptr) state_->alarm->Cancel();
  }

  static void Retire(Stream* stream) {
    stream->retired = true;
    if (stream->state->current == stream) stream->state->current = nullptr;
  }

  // Starts the next operation. Releases the lock.
  static void Proceed(Stream* stream, std::unique_lock<std::mutex>& lock) {
    if (stream->writing || stream->half_closed || stream->operations > 0) {
      lock.unlock();
      return;
    }
    if (stream->broken) {
      stream->half_closed = true;
      lock.unlock();
      stream->RemoveHold();  // last use: the stream may be deleted
      return;
    }
    if (!stream->queue.empty()) {
      stream->request.Clear();
      Protocol::SetTimeLeft(stream->request, stream->time_left);
      size_t bytes = 0;
      for (size_t entries = 0; !stream->queue.empty() && entries < rpc_internal::kBatchEntries &&
                               bytes < rpc_internal::kBatchBytes;
           ++entries) {
        bytes += stream->queue.front().ByteSizeLong();
        *Protocol::Add(stream->request) = std::move(stream->queue.front());
        stream->queue.pop_front();
      }
      const bool more = !stream->queue.empty();
      stream->writing = true;
      lock.unlock();
      stream->StartWrite(&stream->request, rpc_internal::WriteOptionsFor(more));
      return;
    }
    if (stream->retired) {
      stream->half_closed = true;
      lock.unlock();
      stream->StartWritesDone();
      stream->RemoveHold();
      return;
    }
    lock.unlock();
  }

  // Requires the lock.
  static void SetAlarm(const std::shared_ptr<State>& state) {
    state->alarm = std::make_unique<grpc::Alarm>();
    state->alarm->Set(absl::ToChronoTime(absl::Now() + kTick), [state](bool) { Tick(state); });
  }

  static void Tick(const std::shared_ptr<State>& state) {
    std::vector<Done> late;
    std::vector<Stream*> retired;
    // Destroyed after the lock is released.
    std::unique_ptr<grpc::Alarm> alarm;
    {
      std::lock_guard lock(state->mutex);
      const absl::Time now = MonotonicNow();
      for (Stream* stream : state->streams) {
        for (auto call = stream->pending.begin(); call != stream->pending.end();) {
          if (call->second.deadline > now) {
            ++call;
            continue;
          }
          late.push_back(std::move(call->second.done));
          call = stream->pending.erase(call);
        }
        const bool idle = stream->pending.empty() && stream->queue.empty();
        if (!stream->retired && ((idle && stream->was_idle) || now - stream->opened >= kMaxAge)) {
          Retire(stream);
          ++stream->operations;  // keeps the stream alive until below
          retired.push_back(stream);
        }
        stream->was_idle = idle;
      }
      alarm = std::move(state->alarm);
      state->ticking = true;
      if (!state->streams.empty() && !state->stopping) SetAlarm(state);
    }
    for (const Done& done : late) {
      done(absl::DeadlineExceededError("no answer came in time"), nullptr);
    }
    for (Stream* stream : retired) {
      std::unique_lock lock(state->mutex);
      --stream->operations;
      Proceed(stream, lock);
    }
    std::lock_guard lock(state->mutex);
    state->ticking = false;
    if (state->alarm == nullptr) state->idle.notify_all();
  }

  const std::shared_ptr<State> state_;
};

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_RPC_BATCH_CALLER_H_
