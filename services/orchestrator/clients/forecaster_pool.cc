#include "services/orchestrator/clients/forecaster_pool.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <tuple>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "common/base/log.h"
#include "common/base/monotonic_time.h"
#include "common/base/status.h"
#include "common/convert/batch_protocols.h"
#include "common/convert/convert.h"
#include "common/convert/convert_anchor.h"
#include "common/rpc/batch_caller.h"
#include "common/rpc/call_trace.h"
#include "common/rpc/protocol_version.h"
#include "common/rpc/request_error.h"
#include "common/rpc/status_conversion.h"
#include "kernelcast/v1/forecaster.grpc.pb.h"
#include "services/orchestrator/clients/transient.h"

namespace kernelcast::orchestrator {
namespace {

using Stub = v1::Forecaster::Stub;

v1::FailureLabel FailureFromOutcome(const std::string& outcome) {
  if (outcome == "wrong_result") return v1::FAILURE_LABEL_WRONG_RESULT;
  if (outcome == "crash") return v1::FAILURE_LABEL_CRASH;
  if (outcome == "timeout") return v1::FAILURE_LABEL_TIMEOUT;
  return v1::FAILURE_LABEL_EXPLOIT;
}

v1::Label ToProto(const LabelRecord& label) {
  v1::Label message;
  message.set_label_id(label.label_id);
  *message.mutable_candidate() = kernelcast::ToProto(label.candidate);
  *message.mutable_facts() = kernelcast::ToProto(label.facts);
  *message.mutable_reference_facts() = kernelcast::ToProto(label.reference_facts);
  if (const auto* speedup = std::get_if<Ratio>(&label.truth)) {
    *message.mutable_speedup() = kernelcast::ToProto(*speedup);
  } else {
    message.set_failure(FailureFromOutcome(std::get<std::string>(label.truth)));
  }
  message.set_propensity(label.propensity);
  message.set_decision_reason(kernelcast::ToProto(label.reason));
  if (label.forecast) *message.mutable_forecast() = kernelcast::ToProto(*label.forecast);
  message.set_device_model(label.device_model);
  return message;
}

// FNV-1a with a final mix that spreads differences in a few bits.
uint64_t Hash(std::string_view text, uint64_t hash = 0xcbf29ce484222325) {
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  return hash;
}

// A forecast across its attempts.
struct Job {
  std::shared_ptr<const Problem> problem;
  std::string key;  // chooses the forecaster
  v1::ForecastRequest request;
  // Sent only to forecasters that use it.
  std::shared_ptr<const AnchorKernel> anchor;
  Forecasters::ForecastDone done;
  TraceContext trace;  // of the caller
  int attempts = 0;
  std::set<uint64_t> tried;  // numbers of forecasters
};

// Labels that were passed in one call. Shared by those not acknowledged yet.
struct Offer {
  size_t missing = 0;  // labels times forecasters
  Forecasters::ObserveDone done;
};

struct PendingLabel {
  std::shared_ptr<const Problem> problem;
  // Shared by the forecasters that have not acknowledged it yet.
  std::shared_ptr<const v1::Label> label;
  std::shared_ptr<Offer> offer;
};

// Shared by the pool and its calls, which continue after the forecaster is removed from DNS. Stub,
// batches, number and address are constant; the rest is protected by the pool's mutex.
struct Peer {
  uint64_t number = 0;  // never reused
  std::unique_ptr<Stub> stub;
  std::unique_ptr<BatchCaller<ForecastBatches>> batches;
  std::atomic<bool> takes_batches = true;
  ForecasterView view;
  bool removed = false;
  bool uses_anchors = false;
  bool missed_labels = false;  // and has not been seen to catch up since
  std::set<std::string> problems;
  std::deque<PendingLabel> labels;
  size_t observing = 0;   // labels at the front that a call is sending
  size_t one_by_one = 0;  // labels at the front that must be sent singly
  absl::Time observe_again = absl::InfinitePast();
  std::unique_ptr<grpc::ClientContext> describe_context;
  v1::ForecasterDescribeRequest describe_request;
  v1::ForecasterDescription describe_reply;
  absl::Time next_describe = absl::InfinitePast();
  absl::Time last_answer = absl::InfinitePast();
};

// Objects that gRPC needs until a call has ended.
struct Call {
  grpc::ClientContext context;
  v1::ForecasterPutProblemRequest put_request;
  v1::ForecasterPutProblemReply put_reply;
  v1::ForecastReply forecast_reply;
  v1::ObserveRequest observe_request;
  v1::ObserveReply observe_reply;
  std::shared_ptr<Peer> peer;
  std::shared_ptr<const Problem> problem;
  std::shared_ptr<Job> job;  // null: the call is about labels
  Span span;
};

constexpr size_t kLabelsPerCall = 256;
// Smaller differences are not significant, because descriptions are seconds old.
constexpr uint64_t kFewLabels = 64;
constexpr absl::Duration kDescribeAgain = absl::Milliseconds(500);

}  // namespace

uint64_t RendezvousWeight(std::string_view key, std::string_view peer) {
  uint64_t hash = Hash(peer, Hash("/", Hash(key)));
  hash = (hash ^ (hash >> 33)) * 0xff51afd7ed558ccd;
  hash = (hash ^ (hash >> 33)) * 0xc4ceb9fe1a85ec53;
  return hash ^ (hash >> 33);
}

class ForecasterPool::Impl {
 public:
  explicit Impl(ForecasterPoolOptions options) : options_(std::move(options)) {}

  absl::Status Start() {
    for (const std::string& address : options_.discovery.addresses) {
      KC_RETURN_IF_ERROR(MakeChannel(address, options_.channel).status());
    }
    KC_ASSIGN_OR_RETURN(
        discovery_,
        AddressWatch::Start(options_.discovery, [this](const auto& peers) { OnPeers(peers); }));
    thread_ = std::thread([this] { Watch(); });
    return absl::OkStatus();
  }

  ~Impl() {
    std::multimap<absl::Time, std::shared_ptr<Job>> abandoned;
    std::set<std::shared_ptr<Offer>> offers;
    std::set<std::shared_ptr<Peer>> known;
    {
      std::unique_lock lock(mutex_);
      stopping_ = true;
      known.insert(peers_.begin(), peers_.end());
      for (Call* call : calls_) {
        call->context.TryCancel();
        known.insert(call->peer);
      }
      for (const auto& peer : peers_) {
        if (peer->describe_context != nullptr) peer->describe_context->TryCancel();
        for (const PendingLabel& pending : peer->labels) offers.insert(pending.offer);
      }
      for (const auto& [since, pending] : orphans_) offers.insert(pending.offer);
      abandoned.swap(later_);
      wake_.notify_all();
    }
    discovery_.reset();
    const absl::Status stopped = absl::CancelledError("the pool of forecasters is stopping");
    for (auto& [time, job] : abandoned) job->done(stopped);
    for (const auto& offer : offers) offer->done(stopped);
    if (thread_.joinable()) thread_.join();
    for (const auto& peer : known) peer->batches->Stop();
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [this] { return calls_.empty() && describing_ == 0; });
  }

  void Submit(std::shared_ptr<Job> job) {
    if (const TraceContext* trace = CurrentTrace()) job->trace = *trace;
    Call* call = nullptr;
    {
      std::lock_guard lock(mutex_);
      if (!stopping_) call = MakeForecastCall(job);
    }
    if (call != nullptr) {
      Begin(call);
    } else {
      Postpone(std::move(job), MonotonicNow() + kDescribeAgain);
    }
  }

  void Observe(const std::shared_ptr<const Problem>& problem,
               const std::vector<LabelRecord>& labels, Forecasters::ObserveDone done) {
    auto offer = std::make_shared<Offer>();
    offer->done = std::move(done);
    std::vector<std::shared_ptr<const v1::Label>> messages;
    messages.reserve(labels.size());
    for (const LabelRecord& label : labels) {
      messages.push_back(std::make_shared<const v1::Label>(ToProto(label)));
    }
    AfterUnlock after;
    {
      std::unique_lock lock(mutex_);
      if (stopping_) {
        lock.unlock();
        offer->done(absl::CancelledError("the pool of forecasters is stopping"));
        return;
      }
      for (auto& message : messages) {
        const PendingLabel pending{problem, std::move(message), offer};
        if (peers_.empty()) {
          // Given to the first forecaster that appears.
          ++offer->missing;
          orphans_.emplace_back(absl::InfiniteFuture(), pending);
        }
        for (const auto& peer : peers_) Queue(*peer, pending, after);
      }
      if (offer->missing == 0) after.done.push_back(offer);
      for (const auto& peer : peers_) ObserveNext(peer, after);
    }
    Run(after);
  }

  const ForecasterPoolOptions& options() const { return options_; }

  std::vector<ForecasterView> View() const {
    std::lock_guard lock(mutex_);
    const uint64_t most = MostLabels();
    std::vector<ForecasterView> views;
    for (const auto& peer : peers_) {
      views.push_back(peer->view);
      views.back().pending_labels = peer->labels.size();
      views.back().behind = Behind(*peer, most);
    }
    return views;
  }

 private:
  // Work to do after the lock is released, because gRPC and callbacks may complete at once.
  struct AfterUnlock {
    std::vector<Call*> begin;
    std::vector<std::shared_ptr<Offer>> done;
  };

  void Run(AfterUnlock& after) {
    for (const auto& offer : after.done) offer->done(absl::OkStatus());
    for (Call* call : after.begin) Begin(call);
  }

  void OnPeers(const std::vector<PeerAddress>& addresses) {
    std::vector<std::shared_ptr<Peer>> added;
    for (const PeerAddress& address : addresses) {
      {
        std::lock_guard lock(mutex_);
        const bool known = std::ranges::any_of(
            peers_, [&](const auto& peer) { return peer->view.address == address.address; });
        if (known) continue;
      }
      ChannelOptions channel_options = options_.channel;
      channel_options.authority = address.authority;
      auto channel = MakeChannel(address.address, channel_options);
      if (!channel.ok()) {
        Log(LogLevel::kError, "a forecaster cannot be called",
            {{"address", address.address}, {"error", std::string(channel.status().message())}});
        continue;
      }
      auto peer = std::make_shared<Peer>();
      peer->view.address = address.address;
      peer->view.unhealthy_reason = "not asked yet";
      peer->stub = v1::Forecaster::NewStub(*channel);
      peer->batches = std::make_unique<BatchCaller<ForecastBatches>>(
          [stub = peer->stub.get()](grpc::ClientContext* context, auto* reactor) {
            stub->async()->ForecastBatches(context, reactor);
          });
      added.push_back(std::move(peer));
    }
    AfterUnlock after;
    std::vector<std::string> gone;
    {
      std::lock_guard lock(mutex_);
      if (stopping_) return;
      // A new peer may be a known forecaster at another address. It gets all labels that not
      // everyone has acknowledged; receiving one twice costs little.
      std::vector<PendingLabel> unfinished;
      std::set<const v1::Label*> seen;
      const auto collect = [&](const PendingLabel& pending) {
        if (seen.insert(pending.label.get()).second) unfinished.push_back(pending);
      };
      if (!added.empty()) {
        for (const auto& [until, orphan] : orphans_) collect(orphan);
        for (const auto& peer : peers_) std::ranges::for_each(peer->labels, collect);
      }
      const absl::Time until = MonotonicNow() + options_.orphan_patience;
      std::erase_if(peers_, [&](const std::shared_ptr<Peer>& peer) {
        const bool stays = std::ranges::any_of(addresses, [&](const PeerAddress& address) {
          return address.address == peer->view.address;
        });
        if (stays) return false;
        peer->removed = true;
        gone.push_back(peer->view.address);
        for (PendingLabel& pending : peer->labels) {
          orphans_.emplace_back(until, std::move(pending));
        }
        peer->labels.clear();
        peer->observing = peer->one_by_one = 0;
        return true;
      });
      for (const auto& peer : added) {
        peer->number = ++last_number_;
        peers_.push_back(peer);
        for (const PendingLabel& pending : unfinished) Queue(*peer, pending, after);
      }
      if (!added.empty()) {
        for (const auto& [waits_until, orphan] : orphans_) Acknowledge(orphan, after);
        orphans_.clear();
      }
      wake_.notify_all();
    }
    for (const auto& peer : added) {
      Log(LogLevel::kInfo, "forecaster found", {{"address", peer->view.address}});
    }
    for (const std::string& address : gone) {
      Log(LogLevel::kInfo, "forecaster removed from DNS", {{"address", address}});
    }
    Run(after);
  }

  // --- Forecasts ---

  uint64_t MostLabels() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    uint64_t most = 0;
    for (const auto& peer : peers_) {
      if (peer->view.healthy) most = std::max(most, peer->view.labels);
    }
    return most;
  }
  static bool Behind(const Peer& peer, uint64_t most) {
    return peer.view.labels < most &&
           (peer.missed_labels || 2 * peer.view.labels + kFewLabels < most);
  }

  // The forecaster to ask next. Null if none is known.
  std::shared_ptr<Peer> Choose(const Job& job) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const uint64_t most = MostLabels();
    std::shared_ptr<Peer> best;
    std::tuple<bool, bool, bool, uint64_t> best_rank;
    for (const auto& peer : peers_) {
      const std::tuple<bool, bool, bool, uint64_t> rank(
          peer->view.healthy && !peer->view.draining, !job.tried.contains(peer->number),
          !Behind(*peer, most), RendezvousWeight(job.key, peer->view.address));
      if (best == nullptr || rank > best_rank) {
        best = peer;
        best_rank = rank;
      }
    }
    return best;
  }

  Call* MakeForecastCall(const std::shared_ptr<Job>& job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    std::shared_ptr<Peer> peer = Choose(*job);
    if (peer == nullptr) return nullptr;
    auto* call = new Call;
    call->job = job;
    if (!peer->uses_anchors || job->anchor == nullptr) {
      job->request.clear_anchor();
    } else if (!job->request.has_anchor()) {
      *job->request.mutable_anchor() = kernelcast::ToProto(*job->anchor);
    }
    call->peer = std::move(peer);
    call->problem = job->problem;
    calls_.insert(call);
    return call;
  }

  // Call before the call is shared. Ends a job that the pool does not accept.
  void Postpone(std::shared_ptr<Job> job, absl::Time time) {
    {
      std::lock_guard lock(mutex_);
      if (!stopping_) {
        later_.emplace(time, std::move(job));
        wake_.notify_all();
        return;
      }
    }
    job->done(absl::CancelledError("the pool of forecasters is stopping"));
  }

  // Puts the problem first if the forecaster does not have it.
  void Begin(Call* call) {
    bool put = false;
    {
      std::lock_guard lock(mutex_);
      put = !call->peer->problems.contains(call->problem->problem_id);
    }
    Stub& stub = *call->peer->stub;
    call->context.set_deadline(
        absl::ToChronoTime(absl::Now() + (call->job == nullptr ? options_.observe_timeout
                                                               : options_.forecast_timeout)));
    if (put) {
      *call->put_request.mutable_problem() = ProblemFilesToProto(*call->problem);
      stub.async()->PutProblem(
          &call->context, &call->put_request, &call->put_reply,
          [this, call](const grpc::Status& status) { OnProblemPut(call, status); });
    } else if (call->job != nullptr && !call->job->trace.sampled && call->peer->takes_batches) {
      BeginInBatch(call);
    } else if (call->job != nullptr) {
      // A traced forecast uses a call of its own, because the trace is in the metadata.
      call->span = StartCallSpan("kernelcast.v1.Forecaster/Forecast", call->peer->view.address,
                                 call->job->trace);
      PassTrace(call->span.context(), call->context);
      stub.async()->Forecast(
          &call->context, &call->job->request, &call->forecast_reply,
          [this, call](const grpc::Status& status) { OnForecast(call, status); });
    } else {
      stub.async()->Observe(&call->context, &call->observe_request, &call->observe_reply,
                            [this, call](const grpc::Status& status) { OnObserved(call, status); });
    }
  }

  // Sends a forecast as one of many in a message.
  void BeginInBatch(Call* call) {
    Peer& peer = *call->peer;  // kept alive by the call
    peer.batches->Call(call->job->request, options_.forecast_timeout,
                       [this, call, &peer](const absl::Status& status, v1::ForecastReply* reply) {
                         if (status.code() == absl::StatusCode::kUnimplemented) {
                           peer.takes_batches = false;  // a forecaster of an earlier release
                           Begin(call);
                           return;
                         }
                         absl::Status end = status;
                         if (status.ok() && reply->has_error()) {
                           end = FromRequestError(reply->error());
                           if (end.code() == absl::StatusCode::kUnavailable) peer.batches->Renew();
                         } else if (status.ok()) {
                           call->forecast_reply = std::move(*reply);
                         }
                         OnForecast(call, end);
                       });
  }

  void OnProblemPut(Call* call, const grpc::Status& status) {
    if (!status.ok()) {
      call->job != nullptr ? OnForecast(call, status) : OnObserved(call, status);
      return;
    }
    auto* next = new Call;
    next->peer = call->peer;
    next->problem = call->problem;
    next->job = call->job;
    next->observe_request.Swap(&call->observe_request);
    {
      std::lock_guard lock(mutex_);
      call->peer->problems.insert(call->problem->problem_id);
      calls_.erase(call);
      calls_.insert(next);
      if (stopping_) next->context.TryCancel();
    }
    delete call;
    Begin(next);
  }

  // Updates the forecaster's state from the result of a call.
  void Learn(Peer& peer, const Problem& problem, const absl::Status& status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (status.code() == absl::StatusCode::kNotFound) peer.problems.erase(problem.problem_id);
    // A server that shuts down cancels calls that arrive at that moment.
    if (status.code() != absl::StatusCode::kUnavailable &&
        status.code() != absl::StatusCode::kCancelled) {
      return;
    }
    if (IsNotStarted(status)) {
      peer.view.draining = true;
    } else {
      MarkUnhealthy(peer, std::string(status.message()));
    }
    peer.next_describe = std::min(peer.next_describe, MonotonicNow() + absl::Milliseconds(100));
  }

  void OnForecast(Call* raw, const grpc::Status& status) {
    OnForecast(raw, FromGrpc(status, raw->context));
  }

  void OnForecast(Call* raw, const absl::Status& status) {
    const std::unique_ptr<Call> call(raw);
    EndCallSpan(call->span, status);
    std::shared_ptr<Job> job = call->job;
    Call* next = nullptr;
    bool again = false;
    {
      std::lock_guard lock(mutex_);
      if (!stopping_ && !status.ok()) {
        Learn(*call->peer, *job->problem, status);
        const int limit = std::max(options_.max_attempts, static_cast<int>(peers_.size()) + 1);
        again = (status.code() == absl::StatusCode::kNotFound || IsTransient(status.code())) &&
                ++job->attempts < limit;
        if (status.code() != absl::StatusCode::kNotFound) job->tried.insert(call->peer->number);
        if (again) {
          const std::shared_ptr<Peer> other = Choose(*job);
          const bool fresh = other != nullptr && other->view.healthy && !other->view.draining &&
                             !job->tried.contains(other->number);
          if (fresh) next = MakeForecastCall(job);
        }
      }
    }
    if (next != nullptr) {
      Begin(next);
    } else if (again) {
      Postpone(job, MonotonicNow() + RetryAfter(status).value_or(absl::Milliseconds(
                                         50 << (2 * std::min(job->attempts, 3)))));
    } else {
      job->done(Result(status, call->forecast_reply));
    }
    Forget(raw);
  }

  // Must come last in a callback, so that the destructor cannot run before.
  void Forget(Call* call) {
    std::lock_guard lock(mutex_);
    calls_.erase(call);
    if (calls_.empty()) idle_.notify_all();
  }

  static absl::StatusOr<ForecastResult> Result(const absl::Status& status,
                                               const v1::ForecastReply& reply) {
    if (!status.ok()) return status;
    if (reply.has_forecast()) return ForecastResult(FromProto(reply.forecast()));
    KC_ASSIGN_OR_RETURN(Abstention abstention, FromProto(reply.abstention()));
    return ForecastResult(std::move(abstention));
  }

  // --- Labels ---

  void Queue(Peer& peer, const PendingLabel& pending, AfterUnlock& after)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (peer.labels.size() >= options_.max_pending_labels && peers_.size() > 1) {
      Log(LogLevel::kError, "a forecaster was unavailable for too long and misses labels",
          {{"address", peer.view.address}, {"labels", peer.labels.size()}});
      peer.missed_labels = true;
      // Labels that a call is sending stay until the call has ended.
      while (peer.labels.size() > peer.observing) {
        Acknowledge(peer.labels.back(), after);
        peer.labels.pop_back();
      }
      peer.one_by_one = std::min(peer.one_by_one, peer.labels.size());
    }
    ++pending.offer->missing;
    peer.labels.push_back(pending);
  }

  static void Acknowledge(const PendingLabel& pending, AfterUnlock& after) {
    if (--pending.offer->missing == 0) after.done.push_back(pending.offer);
  }

  // Sends the leading labels of the same problem, unless a call is running.
  void ObserveNext(const std::shared_ptr<Peer>& peer, AfterUnlock& after)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (stopping_ || peer->observing > 0 || peer->labels.empty() || !peer->view.healthy ||
        peer->view.draining || peer->observe_again > MonotonicNow()) {
      return;
    }
    auto* call = new Call;
    call->peer = peer;
    call->problem = peer->labels.front().problem;
    const size_t limit = peer->one_by_one > 0 ? 1 : kLabelsPerCall;
    for (const PendingLabel& pending : peer->labels) {
      if (peer->observing >= limit || pending.problem->problem_id != call->problem->problem_id) {
        break;
      }
      *call->observe_request.add_labels() = *pending.label;
      ++peer->observing;
    }
    calls_.insert(call);
    after.begin.push_back(call);
  }

  void OnObserved(Call* raw, const grpc::Status& grpc_status) {
    const std::unique_ptr<Call> call(raw);
    const absl::Status status = FromGrpc(grpc_status, call->context);
    AfterUnlock after;
    {
      std::lock_guard lock(mutex_);
      Peer& peer = *call->peer;
      const size_t sent = std::exchange(peer.observing, 0);
      if (!stopping_ && !peer.removed) {
        if (!status.ok()) Learn(peer, *call->problem, status);
        const bool again =
            status.code() == absl::StatusCode::kNotFound || IsTransient(status.code());
        if (status.ok() || (!again && sent == 1)) {
          if (!status.ok()) {
            Log(LogLevel::kError, "a forecaster refused a label; it is skipped there",
                {{"address", peer.view.address},
                 {"label_id", peer.labels.front().label->label_id()},
                 {"error", std::string(status.message())}});
          }
          for (size_t i = 0; i < sent; ++i) {
            Acknowledge(peer.labels.front(), after);
            peer.labels.pop_front();
          }
          peer.one_by_one -= std::min(peer.one_by_one, sent);
        } else if (!again) {
          // One of them is invalid. Sending each alone finds it.
          peer.one_by_one = sent;
        } else if (status.code() != absl::StatusCode::kNotFound) {
          peer.observe_again = MonotonicNow() + RetryAfter(status).value_or(options_.observe_pause);
        }
        ObserveNext(call->peer, after);
      }
    }
    Run(after);
    Forget(raw);
  }

  // --- Health ---

  void MarkUnhealthy(Peer& peer, std::string reason) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (peer.view.healthy) {
      Log(LogLevel::kWarning, "forecaster lost",
          {{"address", peer.view.address}, {"error", reason}});
    }
    peer.view.healthy = false;
    peer.view.unhealthy_reason = std::move(reason);
    peer.problems.clear();
    discovery_->LookAgain();
  }

  void Watch() {
    std::unique_lock lock(mutex_);
    while (!stopping_) {
      const absl::Time now = MonotonicNow();
      AfterUnlock after;
      std::vector<std::shared_ptr<Peer>> due;
      for (const auto& peer : peers_) {
        ObserveNext(peer, after);
        if (!peer->view.healthy && now - peer->last_answer > options_.silence_limit) {
          for (Call* call : calls_) {
            if (call->peer == peer && peer->last_answer != absl::InfinitePast()) {
              call->context.TryCancel();
            }
          }
          peer->batches->CancelAll();
        }
        if (peer->describe_context != nullptr || peer->next_describe > now) continue;
        peer->describe_context = std::make_unique<grpc::ClientContext>();
        peer->describe_context->set_deadline(
            absl::ToChronoTime(absl::Now() + options_.describe_timeout));
        ++describing_;
        due.push_back(peer);
      }
      std::erase_if(orphans_, [&](const auto& orphan) {
        if (orphan.first > now) return false;
        Acknowledge(orphan.second, after);
        return true;
      });
      std::vector<std::shared_ptr<Job>> ripe;
      while (!later_.empty() && later_.begin()->first <= now) {
        ripe.push_back(std::move(later_.begin()->second));
        later_.erase(later_.begin());
      }
      lock.unlock();
      for (const auto& peer : due) {
        peer->describe_reply.Clear();
        peer->stub->async()->Describe(
            peer->describe_context.get(), &peer->describe_request, &peer->describe_reply,
            [this, peer](const grpc::Status& status) { OnDescribed(peer, status); });
      }
      for (auto& job : ripe) Submit(std::move(job));
      Run(after);
      lock.lock();
      if (stopping_) break;
      wake_.wait_for(lock, std::chrono::milliseconds(later_.empty() ? 200 : 20));
    }
  }

  void OnDescribed(const std::shared_ptr<Peer>& shared, const grpc::Status& status) {
    AfterUnlock after;
    {
      std::lock_guard lock(mutex_);
      Peer& peer = *shared;
      peer.describe_context.reset();
      peer.next_describe = MonotonicNow() + options_.describe_interval;
      if (status.ok()) {
        peer.last_answer = MonotonicNow();
        Accept(peer);
        if (!peer.removed) ObserveNext(shared, after);
      } else if (!stopping_) {
        MarkUnhealthy(peer, status.error_message());
        peer.next_describe = MonotonicNow() + kDescribeAgain;
      }
    }
    Run(after);
    std::lock_guard lock(mutex_);
    if (--describing_ == 0) idle_.notify_all();
  }

  void Accept(Peer& peer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const v1::ForecasterDescription& told = peer.describe_reply;
    const absl::Status version = CheckProtocolVersion(told.protocol_version());
    const std::string objection = version.ok() ? "" : std::string(version.message());
    if (peer.view.healthy != objection.empty() || peer.view.unhealthy_reason != objection) {
      Log(objection.empty() ? LogLevel::kInfo : LogLevel::kWarning,
          objection.empty() ? "forecaster is ready" : "forecaster is not used",
          {{"address", peer.view.address}, {"reason", objection}});
    }
    if (peer.view.name != told.forecaster_id()) peer.problems.clear();
    peer.view.healthy = objection.empty();
    peer.view.unhealthy_reason = objection;
    peer.view.draining = told.draining();
    peer.view.name = told.forecaster_id();
    peer.view.labels = told.labels();
    peer.uses_anchors = told.uses_anchors();
    peer.view.model_use.reset();
    if (told.backends_size() > 0 && told.backends(0).has_model_use()) {
      peer.view.model_use = told.backends(0).model_use();
    }
    if (peer.missed_labels && peer.labels.empty() && peer.view.labels >= MostLabels()) {
      peer.missed_labels = false;
    }
  }

  const ForecasterPoolOptions options_;
  std::unique_ptr<AddressWatch> discovery_;  // constant from Start to the destructor

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable idle_;
  std::vector<std::shared_ptr<Peer>> peers_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_number_ ABSL_GUARDED_BY(mutex_) = 0;
  // Labels whose forecaster was removed from DNS, and until when they wait for another one.
  std::vector<std::pair<absl::Time, PendingLabel>> orphans_ ABSL_GUARDED_BY(mutex_);
  std::multimap<absl::Time, std::shared_ptr<Job>> later_ ABSL_GUARDED_BY(mutex_);
  std::set<Call*> calls_ ABSL_GUARDED_BY(mutex_);
  int describing_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

ForecasterPool::ForecasterPool(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ForecasterPool::~ForecasterPool() = default;

absl::StatusOr<std::unique_ptr<ForecasterPool>> ForecasterPool::Create(
    ForecasterPoolOptions options) {
  auto impl = std::make_unique<Impl>(std::move(options));
  KC_RETURN_IF_ERROR(impl->Start());
  return std::unique_ptr<ForecasterPool>(new ForecasterPool(std::move(impl)));
}

void ForecasterPool::Forecast(std::shared_ptr<const Problem> problem, const ForecastQuery& query,
                              ForecastDone done) {
  auto job = std::make_shared<Job>();
  job->problem = std::move(problem);
  job->key = query.search_id.empty() ? query.candidate.candidate_id : query.search_id;
  v1::ForecastRequest& request = job->request;
  *request.mutable_candidate() = kernelcast::ToProto(query.candidate);
  *request.mutable_facts() = kernelcast::ToProto(query.facts);
  *request.mutable_reference_facts() = kernelcast::ToProto(query.reference_facts);
  request.set_search_id(query.search_id);
  request.set_max_search_tokens(query.max_search_tokens);
  request.set_again(query.again);
  job->anchor = query.anchor;
  if (const auto& device_for = impl_->options().device_for) {
    *request.mutable_device() =
        kernelcast::ToProto(device_for(query.candidate.target, query.device_model));
  } else {
    request.mutable_device()->set_model(query.device_model);
  }
  job->done = std::move(done);
  impl_->Submit(std::move(job));
}

void ForecasterPool::ForecastAll(std::shared_ptr<const Problem> problem,
                                 std::vector<ForecastQuery> queries, ForecastAllDone done) {
  // Shared by the calls of the batch. The last one to finish delivers the results.
  struct Batch {
    std::mutex mutex;
    std::vector<ForecastResult> results;
    absl::Status first_error;
    size_t missing = 0;
    ForecastAllDone done;
  };
  auto batch = std::make_shared<Batch>();
  batch->results.resize(queries.size());
  batch->missing = queries.size();
  batch->done = std::move(done);
  if (queries.empty()) {
    batch->done(std::vector<ForecastResult>{});
    return;
  }
  for (size_t i = 0; i < queries.size(); ++i) {
    Forecast(problem, queries[i], [batch, i](absl::StatusOr<ForecastResult> result) {
      {
        std::lock_guard lock(batch->mutex);
        if (result.ok()) {
          batch->results[i] = *std::move(result);
        } else if (batch->first_error.ok()) {
          batch->first_error = result.status();
        }
        if (--batch->missing > 0) return;
      }
      if (!batch->first_error.ok()) {
        batch->done(batch->first_error);
      } else {
        batch->done(std::move(batch->results));
      }
    });
  }
}

void ForecasterPool::Observe(std::shared_ptr<const Problem> problem,
                             std::vector<LabelRecord> labels, ObserveDone done) {
  impl_->Observe(problem, labels, std::move(done));
}

std::vector<ForecasterView> ForecasterPool::View() const { return impl_->View(); }

}  // namespace kernelcast::orchestrator
