#include "services/cli/rpc/evaluate_stream.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/convert/convert.h"
#include "common/rpc/status_conversion.h"
#include "services/cli/rpc/channel.h"

namespace kernelcast::cli {
namespace {

using Stream = grpc::ClientReaderWriter<v1::EvaluateStreamRequest, v1::EvaluateStreamReply>;

constexpr int kAskMs = 50;
constexpr int64_t kDefaultRetryNs = 500'000'000;
constexpr int64_t kLongestPauseMs = 3'000;
// A message is full at this many requests or more than this many bytes.
constexpr int kRequestsPerMessage = 64;
constexpr size_t kMessageBytes = size_t{1} << 20;

int64_t Now() { return Clock::Real().MonotonicNs(); }

// Unsettled requests, ordered by the earliest time to send them. Shared by the two threads of a
// stream.
class Queue {
 public:
  // `next` makes further requests when all others are in flight.
  Queue(const std::vector<v1::EvaluateRequest>& requests, EvaluateSource next)
      : next_(std::move(next)), exhausted_(!next_) {
    for (const v1::EvaluateRequest& request : requests) Add(&request);
  }

  // Nothing is in flight on a new stream.
  void Restart() {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const std::string& id : in_flight_) waiting_.emplace(0, order_++, id);
    in_flight_.clear();
    broken_ = false;
  }

  // Returns the requests to send now, or none after `kAskMs` without one. Sets `done` when all are
  // settled or the stream is broken.
  v1::EvaluateStreamRequest Take(size_t max_in_flight, bool& done) {
    std::unique_lock<std::mutex> lock(mutex_);
    if (!exhausted_ && !broken_ && waiting_.empty() && in_flight_.size() < max_in_flight) {
      // It may take long, while replies arrive.
      lock.unlock();
      std::optional<v1::EvaluateRequest> made = next_();
      lock.lock();
      exhausted_ = !made;
      if (made) {
        std::string id = made->request_id();
        Add(&made_.insert_or_assign(std::move(id), *std::move(made)).first->second);
      }
    }
    const auto ready = [&] {
      return broken_ || finished() ||
             (in_flight_.size() < max_in_flight && !waiting_.empty() &&
              std::get<0>(*waiting_.begin()) <= Now());
    };
    changed_.wait_for(lock, std::chrono::milliseconds(kAskMs), ready);
    done = broken_ || finished();
    v1::EvaluateStreamRequest message;
    size_t bytes = 0;
    while (!done && ready() && message.requests_size() < kRequestsPerMessage &&
           bytes < kMessageBytes) {
      const std::string id = std::get<2>(*waiting_.begin());
      waiting_.erase(waiting_.begin());
      in_flight_.insert(id);
      *message.add_requests() = *unsettled_.at(id);
      bytes += unsettled_.at(id)->ByteSizeLong();
    }
    return message;
  }

  // Returns whether the reply settles its request for the first time, and must be passed on.
  bool Settle(const v1::EvaluateReply& reply) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const std::string& id = reply.request_id();
    in_flight_.erase(id);
    const auto found = unsettled_.find(id);
    if (found == unsettled_.end()) return false;
    if (reply.has_error()) {
      const auto code = static_cast<absl::StatusCode>(reply.error().code());
      if (code == absl::StatusCode::kResourceExhausted || code == absl::StatusCode::kUnavailable) {
        const int64_t asked = ToNanoseconds(reply.error().retry_after());
        waiting_.emplace(Now() + (asked > 0 ? asked : kDefaultRetryNs), order_++, id);
        changed_.notify_all();
        return false;
      }
    }
    unsettled_.erase(found);
    made_.erase(id);
    changed_.notify_all();
    return true;
  }

  void Break() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      broken_ = true;
    }
    changed_.notify_all();
  }

  bool empty() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return finished();
  }

 private:
  // mutex_ is held, except by the constructor.
  void Add(const v1::EvaluateRequest* request) {
    unsettled_[request->request_id()] = request;
    waiting_.emplace(0, order_++, request->request_id());
  }
  bool finished() const { return exhausted_ && unsettled_.empty(); }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, const v1::EvaluateRequest*> unsettled_;
  std::set<std::tuple<int64_t, uint64_t, std::string>> waiting_;  // not before, order, id
  std::set<std::string> in_flight_;
  uint64_t order_ = 0;
  bool broken_ = false;
  const EvaluateSource next_;
  bool exhausted_;
  std::map<std::string, v1::EvaluateRequest> made_;  // by next_; unsettled_ points to them
};

absl::Status Evaluate(Queue& queue, const EvaluateOptions& options,
                      const std::function<void(const v1::EvaluateReply&)>& on_reply) {
  const auto cancelled = [&] { return options.cancelled && options.cancelled(); };
  int64_t pause_ms = 100;
  int64_t lost_since_ns = 0;
  while (!queue.empty()) {
    if (cancelled()) return absl::CancelledError("interrupted");
    absl::Status status;
    bool progress = false;
    absl::StatusOr<std::shared_ptr<grpc::Channel>> channel = options.reconnect();
    if (!channel.ok()) {
      status = channel.status();
    } else {
      queue.Restart();
      grpc::ClientContext context;
      const std::unique_ptr<v1::Orchestrator::Stub> stub = v1::Orchestrator::NewStub(*channel);
      const std::unique_ptr<Stream> stream = stub->EvaluateStream(&context);
      std::thread writer([&] {
        for (;;) {
          bool done = false;
          const v1::EvaluateStreamRequest message = queue.Take(options.max_in_flight, done);
          if (cancelled()) {
            context.TryCancel();
            return;
          }
          if (done) break;
          if (message.requests_size() > 0 && !stream->Write(message)) return;
        }
        stream->WritesDone();
      });
      v1::EvaluateStreamReply message;
      while (stream->Read(&message)) {
        if (!progress && options.on_trouble) options.on_trouble("");
        progress = true;
        for (const v1::EvaluateReply& reply : message.replies()) {
          if (queue.Settle(reply)) on_reply(reply);
        }
      }
      queue.Break();
      writer.join();
      status = FromGrpc(stream->Finish(), context);
      if (cancelled()) return absl::CancelledError("interrupted");
      // A server that ends the stream without answering everything is treated as lost.
      if (status.ok()) status = absl::UnavailableError("the stream ended early");
    }
    if (queue.empty()) break;
    if (!IsTransient(status)) return status;
    const int64_t now_ns = Now();
    if (progress) {
      pause_ms = 100;
      lost_since_ns = 0;
    }
    if (lost_since_ns == 0) lost_since_ns = now_ns;
    if (now_ns - lost_since_ns > absl::ToInt64Nanoseconds(options.give_up_after)) return status;
    if (options.on_trouble) options.on_trouble(std::string(status.message()));
    for (int64_t waited = 0; waited < pause_ms && !cancelled(); waited += kAskMs) {
      std::this_thread::sleep_for(std::chrono::milliseconds(kAskMs));
    }
    pause_ms = std::min(pause_ms * 2, kLongestPauseMs);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status EvaluateAll(const std::vector<v1::EvaluateRequest>& requests,
                         const EvaluateOptions& options,
                         const std::function<void(const v1::EvaluateReply&)>& on_reply) {
  Queue queue(requests, nullptr);
  return Evaluate(queue, options, on_reply);
}

absl::Status EvaluateEach(const EvaluateSource& next, const EvaluateOptions& options,
                          const std::function<void(const v1::EvaluateReply&)>& on_reply) {
  Queue queue({}, next);
  return Evaluate(queue, options, on_reply);
}

}  // namespace kernelcast::cli
