#include "services/orchestrator/clients/peer_pool.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/rpc/protocol_version.h"
#include "common/rpc/status_conversion.h"

namespace kernelcast::orchestrator {
namespace {

// Delay of Describe after a failure, and after an event that suggests a change.
constexpr absl::Duration kDescribeAgain = absl::Milliseconds(500);
constexpr absl::Duration kDescribeSoon = absl::Milliseconds(100);

absl::Status Stopping(std::string_view noun) {
  return absl::CancelledError(absl::StrCat("the ", std::string(noun), " pool is stopping"));
}

bool IsBusy(const Peer& peer) { return peer.in_flight[0] + peer.in_flight[1] > 0; }

}  // namespace

PeerPool::PeerPool(PeerPoolOptions options, PeerKind* kind)
    : options_(std::move(options)), kind_(kind) {}

absl::Status PeerPool::Start(const AddressWatchOptions& discovery) {
  // An invalid address or TLS file must be reported to the operator at once.
  for (const std::string& address : discovery.addresses) {
    KC_RETURN_IF_ERROR(kind_->Connect({address, ""}).status());
  }
  KC_ASSIGN_OR_RETURN(discovery_, AddressWatch::Start(discovery, [this](const auto& addresses) {
                        SetPeers(addresses);
                      }));
  thread_ = std::thread([this] {
    std::unique_lock lock(mutex_);
    while (!stopping_) {
      lock.unlock();
      Poll();
      lock.lock();
      if (stopping_) break;
      // Waiting jobs may become due.
      wake_.wait_for(lock, std::chrono::milliseconds(waiting_.size() == 0 ? 200 : 20));
    }
  });
  return absl::OkStatus();
}

PeerPool::~PeerPool() {
  std::vector<std::shared_ptr<PeerJob>> abandoned;
  Peers known;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    known = peers_;
    known.insert(known.end(), leaving_.begin(), leaving_.end());
    for (Call* call : calls_) call->stop.request_stop();
    for (const auto& peer : known) peer->stop_describing_.request_stop();
    abandoned = waiting_.Take([](const PeerJob&) { return true; });
    wake_.notify_all();
  }
  discovery_.reset();
  for (const auto& job : abandoned) job->Finish(Stopping(kind_->noun()));
  if (thread_.joinable()) thread_.join();
  for (const auto& peer : known) peer->StopStreams();
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [this] { return calls_.empty() && describing_ == 0; });
}

absl::Time PeerPool::Now() const { return absl::FromUnixNanos(options_.clock->MonotonicNs()); }

std::string PeerPool::Line(const char* text) const {
  return absl::StrCat(std::string(kind_->noun()), text);
}

PeerCounts PeerPool::Counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

size_t PeerPool::QueueDepth() const {
  const std::lock_guard lock(mutex_);
  return waiting_.size();
}

// --- Peers ---

void PeerPool::SetPeers(const std::vector<PeerAddress>& addresses) {
  Peers added;
  for (const PeerAddress& address : addresses) {
    const bool known = WithPeers([&](const Peers& peers) {
      return std::ranges::any_of(
          peers, [&](const auto& peer) { return peer->address == address.address; });
    });
    if (known) continue;
    auto peer = kind_->Connect(address);
    if (peer.ok()) {
      added.push_back(*std::move(peer));
    } else {
      Log(LogLevel::kError, Line(" cannot be called"),
          {{"address", address.address}, {"error", std::string(peer.status().message())}});
    }
  }
  Peers removed;
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    std::erase_if(peers_, [&](const std::shared_ptr<Peer>& peer) {
      const bool stays = std::ranges::any_of(
          addresses, [&](const PeerAddress& address) { return address.address == peer->address; });
      if (stays) return false;
      peer->removed = true;
      removed.push_back(peer);
      leaving_.push_back(peer);
      return true;
    });
    for (const auto& peer : added) {
      peer->number = ++last_number_;
      peer->last_answer_ = Now();
      peers_.push_back(peer);
    }
    wake_.notify_all();
  }
  for (const auto& peer : added) Log(LogLevel::kInfo, Line(" found"), {{"address", peer->address}});
  for (const auto& peer : removed) {
    Log(LogLevel::kInfo, Line(" removed from DNS"), {{"address", peer->address}});
  }
  kind_->OnPeersChanged(added, removed);
  if (!removed.empty()) kind_->OnCapacityChanged();
}

void PeerPool::Poll() {
  Peers due;
  std::vector<Call*> started;
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    const absl::Time now = Now();
    ForgetIdle();
    for (const Peers* const peers : {&peers_, &leaving_}) {
      for (const std::shared_ptr<Peer>& peer : *peers) {
        GiveUpIfSilent(*peer, now);
        if (peer->describing_ || peer->next_describe_ > now) continue;
        peer->describing_ = true;
        ++describing_;
        due.push_back(peer);
      }
    }
    started = Dispatch();
  }
  Begin(started);
  for (const auto& peer : due) {
    peer->Describe(options_.describe_timeout, peer->stop_describing_.get_token(),
                   [this, peer](const absl::Status& status) { OnDescribed(peer, status); });
  }
  kind_->OnPoll();
}

void PeerPool::OnDescribed(const std::shared_ptr<Peer>& shared, const absl::Status& status) {
  bool changed = false;
  std::vector<Call*> started;
  {
    const std::lock_guard lock(mutex_);
    Peer& peer = *shared;
    const absl::Time now = Now();
    const bool was_healthy = peer.healthy;
    const std::string reason_before = peer.unhealthy_reason;
    peer.describing_ = false;
    peer.next_describe_ = now + options_.describe_interval;
    if (status.ok()) {
      peer.last_answer_ = now;
      changed = Accept(peer);
    } else if (!stopping_) {
      MarkAway(peer, std::string(status.message()));
      peer.next_describe_ = now + kDescribeAgain;
      changed = was_healthy;
    }
    // A peer that was never ready is not logged, but one whose description is refused is.
    if (was_healthy != peer.healthy || (status.ok() && peer.unhealthy_reason != reason_before)) {
      Log(peer.healthy ? LogLevel::kInfo : LogLevel::kWarning,
          Line(peer.healthy  ? " is ready"
               : status.ok() ? " is not used"
                             : " does not answer"),
          {{"address", peer.address}, {"reason", peer.unhealthy_reason}});
    }
    if (!stopping_) started = Dispatch();
  }
  Begin(started);
  if (status.ok()) kind_->OnDescribed(shared);
  if (changed) kind_->OnCapacityChanged();
  const std::lock_guard lock(mutex_);
  if (--describing_ == 0) idle_.notify_all();
}

// Keeps the peer's description. Returns whether capacity has changed.
bool PeerPool::Accept(Peer& peer) {
  const PeerKind::Report reported = kind_->ReportOf(peer);
  std::string objection = std::string(CheckProtocolVersion(reported.protocol_version).message());
  if (objection.empty()) objection = kind_->Objection(peer, peers_);
  bool changed = peer.healthy != objection.empty() || peer.draining != reported.draining;
  if (peer.process_id_ != reported.process_id) {
    peer.process_id_ = reported.process_id;
    Forget(peer);
    peer.record = OutlierDetector();
    changed = changed || peer.healthy;
  }
  if (!objection.empty()) Forget(peer);
  changed = kind_->Keep(peer, objection.empty()) || changed;
  peer.healthy = objection.empty();
  peer.unhealthy_reason = std::move(objection);
  peer.draining = reported.draining;
  return changed;
}

// The peer may have lost what was sent to it.
void PeerPool::Forget(Peer& peer) {
  peer.problems_.clear();
  peer.sent.Clear();
}

void PeerPool::MarkAway(Peer& peer, std::string reason) {
  peer.healthy = false;
  peer.unhealthy_reason = std::move(reason);
  Forget(peer);
  // It may have moved.
  if (discovery_ != nullptr) discovery_->LookAgain();
}

// Ends the calls of a peer that does not answer, so that its work goes to others.
void PeerPool::GiveUpIfSilent(Peer& peer, absl::Time now) {
  if (peer.healthy || now - peer.last_answer_ <= options_.silence_limit) return;
  bool any = false;
  for (Call* call : calls_) {
    if (call->peer.get() != &peer || call->given_up) continue;
    call->given_up = any = true;
    call->stop.request_stop();
  }
  if (any) peer.CancelStreams();
}

void PeerPool::ForgetIdle() {
  std::erase_if(leaving_, [](const auto& peer) { return !IsBusy(*peer) && !peer->describing_; });
}

// --- Jobs ---

void PeerPool::Submit(std::shared_ptr<PeerJob> job) {
  std::vector<Call*> started;
  {
    const std::lock_guard lock(mutex_);
    if (!stopping_) {
      waiting_.Add(std::move(job));
      started = Dispatch();
    }
  }
  if (job != nullptr) {
    job->Finish(Stopping(kind_->noun()));
  } else {
    Begin(started);
  }
}

bool PeerPool::SendTo(const std::shared_ptr<Peer>& peer, std::shared_ptr<PeerJob> job) {
  Call* call = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (stopping_ || !peer->available()) return false;
    call = MakeCall(std::move(job), peer, /*pinned=*/true);
  }
  if (call != nullptr) Begin({call});
  return true;
}

void PeerPool::Cancel(const std::vector<std::string>& request_ids) {
  const std::unordered_set<std::string> ids(request_ids.begin(), request_ids.end());
  std::vector<std::shared_ptr<PeerJob>> dropped;
  {
    const std::lock_guard lock(mutex_);
    dropped = waiting_.Take([&](const PeerJob& job) { return ids.contains(job.request_id); });
    for (Call* call : calls_) {
      if (!ids.contains(call->job->request_id)) continue;
      call->job->cancelled = true;
      call->stop.request_stop();
    }
  }
  for (const auto& job : dropped) job->Finish(absl::CancelledError("no caller waits for it"));
}

// The best peer that has room. Null if none has. Prefers, in this order, peers that are in use or
// on probation, ejected ones, those that have failed the job, and those that are not available; but
// waits for a busy peer rather than using one that is known to fail.
std::shared_ptr<Peer> PeerPool::Choose(const PeerJob& job, absl::Time now) const {
  enum Rank { kTrusted, kOut, kFailedBefore, kUnavailable, kRanks };
  struct Best {
    bool any = false;
    const std::shared_ptr<Peer>* peer = nullptr;
    std::tuple<bool, int, double, uint64_t> merit;
  };
  std::array<Best, kRanks> ranks;
  for (const std::shared_ptr<Peer>& peer : peers_) {
    if (!peer->available() && !kind_->asks_unavailable()) continue;
    const std::optional<PeerKind::Fit> fit = kind_->FitFor(*peer, job, peers_);
    if (!fit) continue;
    const bool failed_before = job.failed_on.contains(peer->number);
    const Rank rank = !peer->available()      ? kUnavailable
                      : failed_before         ? kFailedBefore
                      : peer->record.out(now) ? kOut
                                              : kTrusted;
    Best& best = ranks[rank];
    best.any = true;
    if (fit->free <= 0) continue;
    // A probe is a single call.
    if (rank == kTrusted && !peer->record.in() && peer->dispatched > 0) continue;
    const std::tuple<bool, int, double, uint64_t> merit(!failed_before, fit->tier, fit->score,
                                                        ~peer->last_chosen_);
    if (best.peer == nullptr || merit > best.merit) {
      best.peer = &peer;
      best.merit = merit;
    }
  }
  const auto first = std::ranges::find_if(ranks, &Best::any);
  return first == ranks.end() || first->peer == nullptr ? nullptr : *first->peer;
}

// Takes the jobs that can be started. The caller begins the calls after it released the lock.
std::vector<PeerPool::Call*> PeerPool::Dispatch() {
  std::vector<Call*> started;
  const absl::Time now = Now();
  waiting_.Start(now, [&](const std::shared_ptr<PeerJob>& job) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    std::shared_ptr<Peer> peer = Choose(*job, now);
    if (peer == nullptr) return false;
    peer->last_chosen_ = ++choices_;
    Call* const call = MakeCall(job, std::move(peer), /*pinned=*/false);
    if (call != nullptr) started.push_back(call);
    return true;
  });
  return started;
}

PeerPool::Call* PeerPool::MakeCall(std::shared_ptr<PeerJob> job, std::shared_ptr<Peer> peer,
                                   bool pinned) {
  kind_->Prepare(*peer, *job);
  ++peer->in_flight[job->lane];
  if (!pinned) ++peer->dispatched;
  job->waiting.End();
  auto* const call = new Call;
  call->job = std::move(job);
  call->peer = std::move(peer);
  call->pinned = pinned;
  calls_.insert(call);
  const std::string& problem_id = call->job->problem->problem_id;
  if (call->peer->problems_.contains(problem_id)) return call;
  const auto [put, is_first] = call->peer->putting_.try_emplace(problem_id);
  call->puts_problem = is_first;
  if (is_first) return call;
  put->second.push_back([this, call](const absl::Status& status) {
    status.ok() ? Send(call) : Finish(call, status);
  });
  return nullptr;
}

void PeerPool::Begin(const std::vector<Call*>& calls) {
  for (Call* call : calls) call->puts_problem ? PutProblem(call) : Send(call);
}

void PeerPool::PutProblem(Call* call) {
  call->peer->PutProblem(*call->job->problem, call->job->timeout, call->stop.get_token(),
                         [this, call](const absl::Status& status) { OnProblemPut(call, status); });
}

void PeerPool::OnProblemPut(Call* call, const absl::Status& status) {
  std::vector<Peer::Done> waiting;
  {
    const std::lock_guard lock(mutex_);
    const std::string& problem_id = call->job->problem->problem_id;
    if (status.ok()) call->peer->problems_.insert(problem_id);
    waiting = std::move(call->peer->putting_.extract(problem_id).mapped());
  }
  // If only this call was cancelled, the others are repeated, and one of them puts the problem.
  const absl::Status others =
      absl::IsCancelled(status) ? absl::NotFoundError("the problem was not put") : status;
  status.ok() ? Send(call) : Finish(call, status);
  for (const Peer::Done& done : waiting) done(others);
}

void PeerPool::Send(Call* call) {
  call->job->Send(*call->peer, call->stop.get_token(),
                  [this, call](const absl::Status& status) { Finish(call, status); });
}

void PeerPool::Finish(Call* raw, const absl::Status& status) {
  const std::unique_ptr<Call> call(raw);
  const std::shared_ptr<PeerJob> job = call->job;
  absl::Status final_status = status;
  bool repeated = false;
  bool changed = false;
  if (status.ok()) {
    job->ForEachCandidate([&](const Candidate& candidate) { call->peer->sent.Add(candidate); });
  } else if (absl::IsNotFound(status)) {
    job->ForEachCandidate([&](const Candidate& candidate) { call->peer->sent.Remove(candidate); });
  }
  std::vector<Call*> started;
  {
    const std::lock_guard lock(mutex_);
    Peer& peer = *call->peer;
    --peer.in_flight[job->lane];
    if (!call->pinned) --peer.dispatched;
    if (stopping_) {
      if (!status.ok()) final_status = Stopping(kind_->noun());
    } else if (job->cancelled && !status.ok()) {
      // A cancelled call says nothing about the peer.
      final_status = absl::CancelledError("no caller waits for it");
    } else {
      const CallEnd end = EndOf(status, call->given_up);
      Learn(*call, end, status, changed);
      repeated = end != CallEnd::kAnswered && !call->pinned && Repeat(*call, end, status);
    }
    if (peer.removed) ForgetIdle();
    if (!stopping_) started = Dispatch();
  }
  Begin(started);
  if (changed) kind_->OnCapacityChanged();
  if (!repeated) job->Finish(final_status);
  // Must come last, so that the destructor cannot run before.
  const std::lock_guard lock(mutex_);
  calls_.erase(raw);
  if (calls_.empty()) idle_.notify_all();
}

// Queues the job again, unless its error is final.
bool PeerPool::Repeat(const Call& call, CallEnd end, const absl::Status& status) {
  PeerJob& job = *call.job;
  ++job.failures;
  switch (end) {
    case CallEnd::kLost:
      ++job.losses;
      job.failed_on.insert(call.peer->number);
      break;
    case CallEnd::kFailed:
      ++job.attempts;
      job.failed_on.insert(call.peer->number);
      break;
    case CallEnd::kContentUnknown: ++job.attempts; break;
    default: break;
  }
  const std::optional<absl::Duration> delay =
      kind_->RetryIn(*call.peer, job, end, RetryAfter(status), peers_);
  if (!delay) return false;
  switch (end) {
    case CallEnd::kLost: ++counts_.repeated_lost; break;
    case CallEnd::kFailed: ++counts_.repeated_failed; break;
    case CallEnd::kHandedBack: ++counts_.repeated_handed_back; break;
    case CallEnd::kRefused: ++counts_.repeated_refused; break;
    default: break;
  }
  job.not_before = Now() + *delay;
  waiting_.AddAgain(call.job);
  wake_.notify_all();
  return true;
}

void PeerPool::Learn(const Call& call, CallEnd end, const absl::Status& status, bool& changed) {
  Peer& peer = *call.peer;
  const absl::Time now = Now();
  bool blame = false;
  switch (end) {
    case CallEnd::kAnswered:
      // It works, whatever it said about the request.
      if (call.pinned) return;
      peer.record.Add(/*failed=*/false);
      // A call from before the ejection may still succeed, but proves nothing.
      if (!peer.record.on_probation(now)) return;
      peer.record.Readmit();
      Log(LogLevel::kInfo, Line(" is used again"), {{"address", peer.address}});
      changed = true;
      return;
    case CallEnd::kContentUnknown:
      // The next attempt puts it again, and sends the candidates whole.
      peer.problems_.erase(call.job->problem->problem_id);
      return;
    case CallEnd::kHandedBack:
      changed = !peer.draining;
      peer.draining = true;
      break;
    case CallEnd::kRefused:
      peer.next_describe_ = std::min(peer.next_describe_, now + kDescribeAgain);
      return;
    case CallEnd::kLost:
      // A lost connection counts as one failure, no matter how many calls it ends.
      if (!peer.healthy) return;
      Log(LogLevel::kWarning, Line(" lost"),
          {{"address", peer.address}, {"error", std::string(status.message())}});
      MarkAway(peer, std::string(status.message()));
      changed = blame = true;
      break;
    case CallEnd::kFailed: blame = true; break;
  }
  if (end != CallEnd::kFailed) {
    peer.next_describe_ = std::min(peer.next_describe_, now + kDescribeSoon);
  }
  if (!blame || call.pinned) return;
  peer.record.Add(/*failed=*/true);
  changed = ConsiderEjecting(peer, status, now) || changed;
}

bool PeerPool::ConsiderEjecting(Peer& peer, const absl::Status& status, absl::Time now) {
  if (peer.removed || peer.record.out(now)) return false;
  size_t out = 0;
  int others_calls = 0, others_failures = 0;
  for (const auto& other : peers_) {
    if (other.get() == &peer) continue;
    if (!other->record.in()) ++out;
    others_calls += other->record.calls();
    others_failures += other->record.failures();
  }
  const bool failed_probe = peer.record.on_probation(now);
  if (!failed_probe) {
    if (2 * (out + 1) > peers_.size()) return false;
    if (!peer.record.Suspicious(options_.outliers, others_calls, others_failures)) return false;
  }
  const absl::Duration pause = peer.record.Eject(options_.outliers, now);
  ++counts_.ejections;
  Log(LogLevel::kWarning, Line(" is left out: its calls fail"),
      {{"address", peer.address},
       {"failed", peer.record.failures()},
       {"of", peer.record.calls()},
       {"seconds", absl::ToDoubleSeconds(pause)},
       {"error", std::string(status.ToString(absl::StatusToStringMode::kWithNoExtraData))}});
  return !failed_probe;
}

}  // namespace kernelcast::orchestrator
