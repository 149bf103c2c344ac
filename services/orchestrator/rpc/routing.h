#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_RPC_ROUTING_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_RPC_ROUTING_H_

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/base/trace_context.h"
#include "common/rpc/call_trace.h"
#include "common/rpc/channel.h"
#include "common/rpc/status_conversion.h"
#include "common/rpc/stream_writer.h"
#include "kernelcast/v1/orchestrator.grpc.pb.h"
#include "services/orchestrator/replicas/answered_anyway.h"
#include "services/orchestrator/replicas/engine_directory.h"
#include "services/orchestrator/rpc/replica_metrics.h"
#include "services/orchestrator/rpc/replies.h"

namespace kernelcast::orchestrator {

// Metadata of a call that one orchestrator forwards to another: the shard it is for. A forwarded
// call is never forwarded again.
inline constexpr char kShardKey[] = "kernelcast-shard";

// The parts of a call that are forwarded with it.
struct CallOrigin {
  explicit CallOrigin(const grpc::CallbackServerContext& context);

  std::chrono::system_clock::time_point deadline;
  TraceContext trace;        // invalid: none
  std::optional<int> shard;  // set for a forwarded call
};

// A call on its way to its shard.
class Routed {
 public:
  virtual ~Routed() = default;
  // The leases were checked. Continues if the call waits for a holder of its shard, and abandons a
  // forwarded attempt if the holder has changed.
  virtual void Look() = 0;
};

// Routes calls: knows the engines, the channels to other orchestrators, and the calls that are
// forwarded or waiting. Thread-safe.
class Router {
 public:
  // All pointers must outlive the router.
  Router(const EngineDirectory* engines, ChannelOptions channel, absl::Duration patience,
         ReplicaMetrics* metrics);
  // Ends forwarded calls. Nobody may wait for them any more.
  ~Router();

  const EngineDirectory& engines() const { return *engines_; }
  // How long a call waits for a holder of its shard.
  absl::Duration patience() const { return patience_; }
  // Set before calls arrive.
  void set_own_address(const std::string& address) { own_address_ = address; }
  const std::string& own_address() const { return own_address_; }

  // This orchestrator is giving its shards back.
  void BeginDrain() { draining_ = true; }
  bool draining() const { return draining_; }
  // Whether nobody will take the shards that are free now.
  bool hopeless() const { return draining_ && !engines_->HasOthers(); }

  // Null: invalid address.
  std::shared_ptr<v1::Orchestrator::Stub> Peer(const std::string& address);
  // `trace`: passed on with the call.
  void Prepare(grpc::ClientContext& context, const CallOrigin& origin, int shard,
               const TraceContext& trace) const;

  // Between Add and Remove, LookAll calls the call's Look.
  void Add(const std::shared_ptr<Routed>& call);
  void Remove(const std::shared_ptr<Routed>& call);
  void LookAll();

  // Call PassedOn before and CameBack after each forwarded call.
  void PassedOn();
  void CameBack();

 private:
  const EngineDirectory* const engines_;
  const ChannelOptions channel_;
  const absl::Duration patience_;
  ReplicaMetrics* const metrics_;
  std::string own_address_;  // constant once calls arrive
  std::atomic<bool> draining_ = false;

  std::mutex mutex_;
  std::condition_variable idle_;
  int passed_on_ ABSL_GUARDED_BY(mutex_) = 0;
  // Shared with the calls that use them.
  std::map<std::string, std::shared_ptr<v1::Orchestrator::Stub>> peers_ ABSL_GUARDED_BY(mutex_);
  // Shared with those who answer the calls.
  std::set<std::shared_ptr<Routed>> calls_ ABSL_GUARDED_BY(mutex_);
};

// One request on its way to its shard: answered here if the shard is held here, otherwise forwarded
// to its holder; waits if there is none. Requests are idempotent by their ids, so each may be sent
// again. Thread-safe.
template <class Request, class Reply>
class RoutedCall final : public Routed,
                         public std::enable_shared_from_this<RoutedCall<Request, Reply>> {
 public:
  using Done = std::function<void(absl::StatusOr<Reply>)>;
  using Method = void (v1::Orchestrator::StubInterface::async_interface::*)(
      grpc::ClientContext*, const Request*, Reply*, std::function<void(grpc::Status)>);
  struct Handlers {
    // Answers a request for a shard held here.
    std::function<void(const std::shared_ptr<HeldShard>&, const Request&, Done)> here;
    // Asks another orchestrator.
    Method there = nullptr;
    const char* method = "";     // "kernelcast.v1.Orchestrator/Evaluate"
    std::function<bool()> open;  // whether anybody waits for the answer
    Done done;                   // called once, unless nobody waits any more
  };

  static std::shared_ptr<RoutedCall> Make(Router* router, CallOrigin origin, int shard,
                                          Request request, Handlers handlers) {
    return std::shared_ptr<RoutedCall>(
        new RoutedCall(router, std::move(origin), shard, std::move(request), std::move(handlers)));
  }

  void Start() {
    router_->Add(this->shared_from_this());
    Proceed();
  }
  // The same for a request that the engine here has answered with UNAVAILABLE.
  void StartAfter(const absl::Status& unavailable) {
    router_->Add(this->shared_from_this());
    OnResult(unavailable, nullptr);
  }

  // Nobody waits for the answer any more.
  void Cancel() {
    std::shared_ptr<Attempt> attempt;
    {
      const std::lock_guard lock(mutex_);
      attempt = attempt_;
    }
    if (attempt != nullptr) attempt->context.TryCancel();
  }

  void Look() override {
    if (!handlers_.open()) {
      Cancel();
      bool waiting = false;
      {
        const std::lock_guard lock(mutex_);
        waiting = phase_ == Phase::kWaiting;
        if (waiting) phase_ = Phase::kDone;
      }
      if (waiting) router_->Remove(this->shared_from_this());
      return;
    }
    std::shared_ptr<Attempt> left;
    {
      const std::lock_guard lock(mutex_);
      if (phase_ == Phase::kThere) {
        const EngineDirectory::Place place = router_->engines().Find(shard_);
        const bool elsewhere =
            place.held != nullptr || (!place.address.empty() && place.address != attempt_->address);
        if (elsewhere) {
          attempt_->left = true;
          left = attempt_;
        }
      }
      if (phase_ != Phase::kWaiting && left == nullptr) return;
    }
    if (left != nullptr) {
      left->context.TryCancel();
    } else {
      Proceed();
    }
  }

 private:
  enum class Phase { kHere, kThere, kWaiting, kDone };
  struct Attempt {
    grpc::ClientContext context;
    Reply reply;
    std::string address;
    Span span;
    bool left = false;
  };

  RoutedCall(Router* router, CallOrigin origin, int shard, Request request, Handlers handlers)
      : router_(router),
        origin_(std::move(origin)),
        shard_(shard),
        request_(std::move(request)),
        handlers_(std::move(handlers)) {}

  void Proceed() {
    const EngineDirectory::Place place = router_->engines().Find(shard_);
    auto self = this->shared_from_this();
    if (place.held != nullptr) {
      SetPhase(Phase::kHere, nullptr);
      handlers_.here(place.held, request_,
                     AnsweredAnyway<Reply>([self](absl::StatusOr<Reply> result) {
                       self->OnResult(std::move(result), nullptr);
                     }));
      return;
    }
    const std::shared_ptr<v1::Orchestrator::Stub> peer =
        origin_.shard || place.address.empty() ? nullptr : router_->Peer(place.address);
    if (peer == nullptr) {
      OnResult(absl::UnavailableError("no orchestrator holds the shard at the moment"), nullptr);
      return;
    }
    auto attempt = std::make_shared<Attempt>();
    attempt->address = place.address;
    attempt->span = StartCallSpan(handlers_.method, place.address, origin_.trace);
    router_->Prepare(attempt->context, origin_, shard_, attempt->span.context());
    SetPhase(Phase::kThere, attempt);
    router_->PassedOn();
    (peer->async()->*handlers_.there)(
        &attempt->context, &request_, &attempt->reply,
        [self, attempt, peer](const grpc::Status& status) {
          absl::StatusOr<Reply> result =
              status.ok() ? absl::StatusOr<Reply>(std::move(attempt->reply))
                          : absl::StatusOr<Reply>(FromGrpc(status, attempt->context));
          EndCallSpan(attempt->span, result.status());
          Router* const router = self->router_;
          self->OnResult(std::move(result), attempt);
          router->CameBack();
        });
  }

  void SetPhase(Phase phase, std::shared_ptr<Attempt> attempt) {
    const std::lock_guard lock(mutex_);
    phase_ = phase;
    attempt_ = std::move(attempt);
  }

  void OnResult(absl::StatusOr<Reply> result, const std::shared_ptr<Attempt>& attempt) {
    const absl::StatusCode code = result.status().code();
    {
      const std::lock_guard lock(mutex_);
      attempt_ = nullptr;
      const bool left = attempt != nullptr && attempt->left;
      if (!origin_.shard && router_->engines().shared() && !result.ok() &&
          (code == absl::StatusCode::kUnavailable ||
           (left && code == absl::StatusCode::kCancelled))) {
        const int64_t now_ns = Clock::Real().MonotonicNs();
        if (wait_until_ns_ == 0) {
          wait_until_ns_ = now_ns + absl::ToInt64Nanoseconds(router_->patience());
        }
        if (now_ns < wait_until_ns_ && handlers_.open() && !router_->hopeless()) {
          phase_ = Phase::kWaiting;  // until the next Look
          return;
        }
        result = UnavailableFor(std::string(result.status().message()), absl::Seconds(1));
      }
      phase_ = Phase::kDone;
    }
    router_->Remove(this->shared_from_this());
    handlers_.done(std::move(result));
  }

  Router* const router_;
  const CallOrigin origin_;
  const int shard_;
  const Request request_;
  const Handlers handlers_;

  std::mutex mutex_;
  Phase phase_ ABSL_GUARDED_BY(mutex_) = Phase::kHere;
  std::shared_ptr<Attempt> attempt_ ABSL_GUARDED_BY(mutex_);  // shared with its callback
  int64_t wait_until_ns_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Relays a stream of messages from the holder of a shard, or from one shard after another, to a
// client of this orchestrator. Reads a message when the previous one is written. Waits for a holder
// if a shard has none. A broken stream ends with UNAVAILABLE, and the client must retry.
// Thread-safe.
template <class Request, class Message>
class Relay final : public Routed, public std::enable_shared_from_this<Relay<Request, Message>> {
 public:
  using Open = void (v1::Orchestrator::StubInterface::async_interface::*)(
      grpc::ClientContext*, const Request*, grpc::ClientReadReactor<Message>*);

  // `endless`: the stream has no end of its own, so it ends when this orchestrator drains.
  Relay(Router* router, CallOrigin origin, std::vector<int> shards, bool endless, Request request,
        Open open, StreamSender<Message> sender)
      : router_(router),
        origin_(std::move(origin)),
        shards_(std::move(shards)),
        endless_(endless),
        request_(std::move(request)),
        open_(open),
        sender_(std::move(sender)) {}

  void Start() {
    router_->Add(this->shared_from_this());
    Proceed();
  }

  // The client is ready for another message.
  void Want() {
    std::shared_ptr<Reader> reader;
    {
      const std::lock_guard lock(mutex_);
      wanted_ = true;
      reader = reader_;
    }
    if (reader != nullptr) reader->Want();
  }

  void Cancel() {
    std::shared_ptr<Reader> reader;
    {
      const std::lock_guard lock(mutex_);
      done_ = true;
      reader = reader_;
    }
    router_->Remove(this->shared_from_this());
    if (reader != nullptr) reader->Cancel();
  }

  void Look() override {
    if (endless_ && router_->draining()) {
      sender_.FinishWith(absl::UnavailableError(
          "the orchestrator is draining; watch again from the last sequence number seen"));
      Cancel();
      return;
    }
    std::shared_ptr<Reader> left;
    bool waiting = false;
    {
      const std::lock_guard lock(mutex_);
      if (done_) return;
      waiting = reader_ == nullptr;
      if (!waiting) {
        const std::string holder = HolderOf(shards_[next_]);
        if (!holder.empty() && holder != reader_->address()) left = reader_;
      }
    }
    if (left != nullptr) left->Cancel();
    if (waiting) Proceed();
  }

 private:
  class Reader final : public grpc::ClientReadReactor<Message> {
   public:
    Reader(std::shared_ptr<Relay> relay, std::string address)
        : relay_(std::move(relay)), address_(std::move(address)) {}

    // Keeps itself alive until the call has ended.
    void Begin(const std::shared_ptr<Reader>& self, std::shared_ptr<v1::Orchestrator::Stub> peer) {
      self_ = self;
      peer_ = std::move(peer);
      relay_->router_->Prepare(context_, relay_->origin_, relay_->shards_[relay_->next_],
                               relay_->origin_.trace);
      (peer_->async()->*relay_->open_)(&context_, &relay_->request_, this);
      this->AddHold();  // reads are started outside of reactions
      this->StartCall();
    }

    const std::string& address() const { return address_; }

    void Want() {
      {
        const std::lock_guard lock(mutex_);
        if (reading_ || !held_) return;
        reading_ = true;
      }
      this->StartRead(&message_);
    }

    void Cancel() {
      context_.TryCancel();
      ReleaseUnlessReading();
    }

    void OnReadDone(bool ok) override {
      if (!ok) {
        {
          const std::lock_guard lock(mutex_);
          reading_ = false;
        }
        ReleaseUnlessReading();
        return;
      }
      received_ = true;
      relay_->OnMessage();
      Message message = std::move(message_);
      message_ = Message();
      {
        const std::lock_guard lock(mutex_);
        reading_ = false;
      }
      relay_->sender_.Send(std::move(message));
      if (!relay_->sender_.open()) Cancel();
    }

    void OnDone(const grpc::Status& status) override {
      const std::shared_ptr<Reader> self = std::move(self_);
      const std::shared_ptr<Relay> relay = std::move(relay_);
      Router* const router = relay->router_;
      relay->OnEnd(FromGrpc(status, context_), received_);
      router->CameBack();
    }

   private:
    void ReleaseUnlessReading() {
      {
        const std::lock_guard lock(mutex_);
        if (reading_ || !held_) return;
        held_ = false;
      }
      this->RemoveHold();
    }

    std::shared_ptr<Reader> self_;
    std::shared_ptr<Relay> relay_;
    std::shared_ptr<v1::Orchestrator::Stub> peer_;
    const std::string address_;
    grpc::ClientContext context_;
    Message message_;
    bool received_ = false;
    std::mutex mutex_;
    bool reading_ ABSL_GUARDED_BY(mutex_) = false;
    bool held_ ABSL_GUARDED_BY(mutex_) = true;
  };

  std::string HolderOf(int shard) const {
    const EngineDirectory::Place place = router_->engines().Find(shard);
    return place.held != nullptr ? router_->own_address() : place.address;
  }

  void Proceed() {
    std::shared_ptr<Reader> reader;
    std::shared_ptr<v1::Orchestrator::Stub> peer;
    bool expired = false, wanted = false;
    {
      const std::lock_guard lock(mutex_);
      if (done_ || reader_ != nullptr) return;
      const std::string holder = HolderOf(shards_[next_]);
      if (!holder.empty()) peer = router_->Peer(holder);
      if (peer == nullptr) {
        const int64_t now_ns = Clock::Real().MonotonicNs();
        if (wait_until_ns_ == 0) {
          wait_until_ns_ = now_ns + absl::ToInt64Nanoseconds(router_->patience());
        }
        expired = now_ns >= wait_until_ns_ || router_->hopeless();
        if (!expired) return;  // until the next Look
        done_ = true;
      } else {
        reader_ = std::make_shared<Reader>(this->shared_from_this(), holder);
        reader = reader_;
        wanted = wanted_;
        router_->PassedOn();
        reader->Begin(reader, std::move(peer));
      }
    }
    if (expired) {
      router_->Remove(this->shared_from_this());
      sender_.FinishWith(
          UnavailableFor("no orchestrator holds the shard at the moment", absl::Seconds(1)));
    } else if (wanted) {
      reader->Want();
    }
  }

  void OnMessage() {
    const std::lock_guard lock(mutex_);
    wanted_ = false;
    wait_until_ns_ = 0;
  }

  void OnEnd(const absl::Status& status, bool received) {
    bool more = false;
    {
      const std::lock_guard lock(mutex_);
      reader_ = nullptr;
      if (done_) return;
      const int64_t now_ns = Clock::Real().MonotonicNs();
      if (status.ok() && next_ + 1 < shards_.size()) {
        ++next_;
        more = true;
      } else if (status.code() == absl::StatusCode::kUnavailable && !received &&
                 (wait_until_ns_ == 0 || now_ns < wait_until_ns_)) {
        // The call has not begun: the shard was moving to another holder.
        if (wait_until_ns_ == 0) {
          wait_until_ns_ = now_ns + absl::ToInt64Nanoseconds(router_->patience());
        }
        return;  // until the next Look
      } else {
        done_ = true;
      }
    }
    if (more) {
      Proceed();
      return;
    }
    router_->Remove(this->shared_from_this());
    // This orchestrator did not cancel it, so the connection broke.
    sender_.FinishWith(status.code() == absl::StatusCode::kCancelled
                           ? absl::UnavailableError("the shard has gone to another orchestrator; "
                                                    "ask again from the last sequence number seen")
                           : status);
  }

  Router* const router_;
  const CallOrigin origin_;
  const std::vector<int> shards_;
  const bool endless_;
  const Request request_;
  const Open open_;
  const StreamSender<Message> sender_;

  std::mutex mutex_;
  size_t next_ = 0;  // index into shards_; changes only while there is no reader
  bool wanted_ ABSL_GUARDED_BY(mutex_) = false;
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
  std::shared_ptr<Reader> reader_ ABSL_GUARDED_BY(mutex_);  // shared with its call
  int64_t wait_until_ns_ ABSL_GUARDED_BY(mutex_) = 0;
};

// The client's side of a Relay.
template <class Request, class Message>
class RelayStream final : public WriteStream<Message> {
 public:
  RelayStream(grpc::CallbackServerContext* context, Router* router, std::vector<int> shards,
              bool endless, const Request& request, typename Relay<Request, Message>::Open open)
      : WriteStream<Message>(context),
        relay_(std::make_shared<Relay<Request, Message>>(router, CallOrigin(*context),
                                                         std::move(shards), endless, request, open,
                                                         this->sender())) {}

  void Start() { relay_->Start(); }

 private:
  void OnWritable() override { relay_->Want(); }
  void OnCancelled() override { relay_->Cancel(); }

  const std::shared_ptr<Relay<Request, Message>> relay_;  // shared with its reader
};

// A stream that ends at once with a status.
template <class Message>
class EndedStream final : public WriteStream<Message> {
 public:
  EndedStream(grpc::CallbackServerContext* context, const absl::Status& status)
      : WriteStream<Message>(context) {
    this->FinishWith(status);
  }
};

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_RPC_ROUTING_H_
