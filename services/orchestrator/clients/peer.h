#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_CLIENTS_PEER_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_CLIENTS_PEER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/trace_context.h"
#include "common/convert/candidate_exchange.h"
#include "common/domain/problem.h"
#include "common/tracing/tracer.h"
#include "services/orchestrator/clients/address_watch.h"
#include "services/orchestrator/clients/call_end.h"
#include "services/orchestrator/clients/outlier_detector.h"

namespace kernelcast::orchestrator {

// A process that a PeerPool calls. Derived classes make the calls and keep what is specific to
// their kind of peer. Its health:
//
//   away --a description is accepted--> ready <--it serves again--- draining
//    ^                                  |   |                         ^   |
//    |  a call is lost, or a description|   +--it says so, or hands---+   |
//    +--fails or is not accepted--------+      a request back             |
//    ^                                                                    |
//    +----------a description fails---------------------------------------+
//
//   any --no longer in DNS--> removed --its calls have ended--> forgotten
//
// Whether a ready peer is ejected because its calls fail is the OutlierDetector's state.
class Peer {
 public:
  using Done = std::function<void(const absl::Status&)>;

  explicit Peer(std::string peer_address) : address(std::move(peer_address)) {}
  virtual ~Peer() = default;
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  // Both return at once, and call `done` once, from any thread, possibly before they return. A stop
  // request ends the call with CANCELLED. Describe stores what the peer tells until the next one.
  virtual void Describe(absl::Duration timeout, std::stop_token stop, Done done) = 0;
  virtual void PutProblem(const Problem& problem, absl::Duration timeout, std::stop_token stop,
                          Done done) = 0;
  // Ends calls that share a stream, which stop requests do not end. May end them later.
  virtual void CancelStreams() = 0;
  // Like CancelStreams, but returns after every `done` has run. No call follows.
  virtual void StopStreams() = 0;

  // Ready for requests.
  bool available() const { return healthy && !draining && !removed; }

  const std::string address;
  SentCandidates sent;
  uint64_t number = 0;  // never reused; constant once the pool knows the peer

  // Protected by the pool's lock.
  bool healthy = false;
  std::string unhealthy_reason = "not asked yet";
  bool draining = false;
  bool removed = false;
  OutlierDetector record;
  // Requests in progress by lane, and those of them that the pool chose the peer for.
  uint32_t in_flight[2] = {};
  uint32_t dispatched = 0;

 private:
  friend class PeerPool;

  std::string process_id_;
  std::set<std::string> problems_;  // put to this process
  // Problems that a call is putting, and what the calls do that wait for it.
  std::map<std::string, std::vector<Done>> putting_;
  uint64_t last_chosen_ = 0;
  bool describing_ = false;
  std::stop_source stop_describing_;
  absl::Time next_describe_ = absl::InfinitePast();
  absl::Time last_answer_ = absl::InfinitePast();
};

// A request from its arrival to its answer, across peers.
class PeerJob {
 public:
  virtual ~PeerJob() = default;

  // Makes the call. `done` gets OK only for a reply that is possible, which the job keeps. Same
  // contract as Peer's calls. The job and the peer live until `done` is called.
  virtual void Send(Peer& peer, std::stop_token stop, Peer::Done done) = 0;
  // Ends the job. OK: the last Send succeeded. Called once, without the pool's lock.
  virtual void Finish(const absl::Status& status) = 0;
  // Whether a peer that has no room for this job has none for the other one either.
  virtual bool WaitsLike(const PeerJob& other) const = 0;
  // Visits the candidates that Send writes with Peer::sent.
  virtual void ForEachCandidate(const std::function<void(const Candidate&)>& visit) const {
    (void)visit;
  }

  // Constant once the pool has the job.
  std::string request_id;  // for Cancel; may be empty
  std::shared_ptr<const Problem> problem;
  absl::Duration timeout;  // of one call
  int lane = 0;            // index in Peer::in_flight
  TraceContext trace;      // of the caller
  Span waiting;            // ended when the job no longer waits for a peer

  // Protected by the pool's lock.
  int failures = 0;              // failed calls, for any reason
  int attempts = 0;              // of those, that failed or found content unknown
  int losses = 0;                // of those, that were lost
  std::set<uint64_t> failed_on;  // numbers of peers that are asked again only if there is no other
  bool cancelled = false;        // the caller no longer waits for it
  absl::Time not_before = absl::InfinitePast();
};

// The specific part of a kind of peers. Methods are called with the pool's lock held, unless stated
// otherwise, and must not call the pool.
class PeerKind {
 public:
  using Peers = std::vector<std::shared_ptr<Peer>>;
  // The part of a peer's description that all kinds have.
  struct Report {
    std::string process_id;  // changes when it restarts. Empty: unknown
    uint32_t protocol_version = 0;
    bool draining = false;
  };
  // How well a peer suits a job.
  struct Fit {
    int64_t free = 0;  // requests that it has room for
    // The highest tier is chosen, then the highest score, then the peer chosen longest ago.
    int tier = 0;
    double score = 0;
  };

  virtual ~PeerKind() = default;

  // "worker": the first word of log lines. Constant.
  virtual std::string_view noun() const = 0;
  // Whether peers that are away or drain are asked if there is no other. Constant.
  virtual bool asks_unavailable() const = 0;
  // Without the lock. INVALID_ARGUMENT: the peer cannot be called.
  virtual absl::StatusOr<std::shared_ptr<Peer>> Connect(const PeerAddress& address) = 0;

  // Reads the peer's latest description.
  virtual Report ReportOf(const Peer& peer) const = 0;
  // Why it is not acceptable, apart from its protocol version. Empty: it is.
  virtual std::string Objection(const Peer& peer, const Peers& peers) const = 0;
  // Keeps the description. Returns whether it changes the capacity.
  virtual bool Keep(Peer& peer, bool accepted) = 0;

  // Nothing: the peer cannot do the job.
  virtual std::optional<Fit> FitFor(const Peer& peer, const PeerJob& job,
                                    const Peers& peers) const = 0;
  // Called before the job is sent to the peer.
  virtual void Prepare(const Peer& peer, PeerJob& job) const = 0;
  // A call has failed, and `job` counts it. Returns the delay of the next call; nothing: the error
  // is final. `hint`: the delay that the peer asked for.
  virtual std::optional<absl::Duration> RetryIn(Peer& peer, PeerJob& job, CallEnd end,
                                                std::optional<absl::Duration> hint,
                                                const Peers& peers) = 0;

  // All without the lock. Peers were found or removed; calls do not overlap.
  virtual void OnPeersChanged(const Peers& added, const Peers& removed) = 0;
  virtual void OnDescribed(const std::shared_ptr<Peer>& peer) = 0;
  virtual void OnCapacityChanged() = 0;
  virtual void OnPoll() = 0;
};

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CLIENTS_PEER_H_
