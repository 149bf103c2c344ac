#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_CLIENTS_PEER_POOL_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_CLIENTS_PEER_POOL_H_

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <unordered_set>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "services/orchestrator/clients/address_watch.h"
#include "services/orchestrator/clients/outlier_detector.h"
#include "services/orchestrator/clients/peer.h"
#include "services/orchestrator/clients/waiting_jobs.h"

namespace kernelcast::orchestrator {

struct PeerPoolOptions {
  // Interval at which each peer is asked to describe itself.
  absl::Duration describe_interval = absl::Seconds(2);
  absl::Duration describe_timeout = absl::Seconds(2);
  // The calls of a peer that does not answer for this long are ended, and its work goes to others.
  absl::Duration silence_limit = absl::Seconds(15);
  OutlierDetector::Options outliers = {};
  const Clock* clock = &Clock::Real();  // must outlive the pool
};

// Counts since the pool was created.
struct PeerCounts {
  uint64_t ejections = 0;
  // Calls that were repeated, by reason.
  uint64_t repeated_lost = 0;         // the connection broke, or the peer did not answer
  uint64_t repeated_failed = 0;       // any other error that is not the request's fault
  uint64_t repeated_handed_back = 0;  // the peer is draining
  uint64_t repeated_refused = 0;      // it had no room
};

// The processes of one kind that this process calls: finds them, keeps track of their health, and
// gives each request to one that has room for it.
//
// - Every peer is asked to describe itself. It is used while its descriptions are accepted, does
// not
//   drain and is in DNS. A peer that left DNS gets no new work but finishes what it has.
// - Requests wait until a peer has room, in order of arrival. Their problem is put first where the
//   peer does not know it, and candidates that it knows are sent by their ids. A failed request
//   goes to a peer that has not failed it yet if there is one, as long as its kind allows.
// - A peer whose calls fail much more often than those of others, although it describes itself, is
//   ejected for a growing period. It then gets one call, and is used again when that succeeds. At
//   most half of the peers are ejected, and they are used where there is no other.
// - The calls of a silent peer are ended.
//
// PeerKind has the specific parts of each kind of peers. Thread-safe.
class PeerPool {
 public:
  // `kind` must outlive the pool.
  PeerPool(PeerPoolOptions options, PeerKind* kind);
  // Cancels running calls. Their jobs get CANCELLED before the destructor returns.
  ~PeerPool();

  // Finds peers and polls from a thread of its own. INVALID_ARGUMENT: an address cannot be used.
  [[nodiscard]] absl::Status Start(const AddressWatchOptions& discovery);
  // Sets all peers. Called by Start's discovery; calls must not overlap.
  void SetPeers(const std::vector<PeerAddress>& addresses);
  // Does what is due: asks for descriptions, ends the calls of silent peers, starts waiting jobs.
  // Called by Start's thread.
  void Poll();

  // Sends the job to a peer that has room, once there is one.
  void Submit(std::shared_ptr<PeerJob> job);
  // Sends the job to this peer at once. Its failure is final and does not count towards an
  // ejection. False, and the job is dropped: the peer is not available.
  bool SendTo(const std::shared_ptr<Peer>& peer, std::shared_ptr<PeerJob> job);
  // Drops waiting jobs of these requests and cancels running ones. Each gets CANCELLED, unless its
  // result arrives first.
  void Cancel(const std::vector<std::string>& request_ids);

  // Returns `f(peers)`, called with the pool's lock held. It must not call the pool.
  template <class F>
  auto WithPeers(F f) const {
    const std::lock_guard lock(mutex_);
    return f(peers_);
  }
  PeerCounts Counts() const;
  // Number of jobs that wait for a peer.
  size_t QueueDepth() const;

 private:
  using Peers = PeerKind::Peers;

  struct Call {
    std::shared_ptr<PeerJob> job;
    std::shared_ptr<Peer> peer;
    std::stop_source stop;
    bool puts_problem = false;
    bool pinned = false;    // by SendTo
    bool given_up = false;  // ended because the peer was silent
  };

  absl::Time Now() const;
  std::string Line(const char* text) const;

  // Choosing and calling. Calls begin after the lock is released, because they may end at once.
  std::shared_ptr<Peer> Choose(const PeerJob& job, absl::Time now) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<Call*> Dispatch() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Null: the call waits until another one has put its problem.
  Call* MakeCall(std::shared_ptr<PeerJob> job, std::shared_ptr<Peer> peer, bool pinned)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Begin(const std::vector<Call*>& calls);
  void PutProblem(Call* call);
  void OnProblemPut(Call* call, const absl::Status& status);
  void Send(Call* call);
  void Finish(Call* call, const absl::Status& status);

  // Applies the end of a call to the job and the peer. `changed`: so has the capacity.
  bool Repeat(const Call& call, CallEnd end, const absl::Status& status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Learn(const Call& call, CallEnd end, const absl::Status& status, bool& changed)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool ConsiderEjecting(Peer& peer, const absl::Status& status, absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Health.
  void OnDescribed(const std::shared_ptr<Peer>& peer, const absl::Status& status);
  bool Accept(Peer& peer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Forget(Peer& peer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void MarkAway(Peer& peer, std::string reason) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void GiveUpIfSilent(Peer& peer, absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ForgetIdle() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const PeerPoolOptions options_;
  PeerKind* const kind_;
  std::unique_ptr<AddressWatch> discovery_;  // constant from Start to the destructor

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable idle_;
  Peers peers_ ABSL_GUARDED_BY(mutex_);
  // Removed from DNS, but not finished with their work.
  Peers leaving_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_number_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t choices_ ABSL_GUARDED_BY(mutex_) = 0;
  WaitingJobs waiting_ ABSL_GUARDED_BY(mutex_);
  std::unordered_set<Call*> calls_ ABSL_GUARDED_BY(mutex_);
  PeerCounts counts_ ABSL_GUARDED_BY(mutex_);
  int describing_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CLIENTS_PEER_POOL_H_
