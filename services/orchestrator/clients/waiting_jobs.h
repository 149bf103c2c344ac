#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_CLIENTS_WAITING_JOBS_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_CLIENTS_WAITING_JOBS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "services/orchestrator/clients/peer.h"

namespace kernelcast::orchestrator {

// Jobs that wait for a peer. Jobs that wait for the same capacity form a queue, so that a long
// queue costs no more than a short one. In a queue problems take turns: a caller with one candidate
// does not wait behind all those of a caller with many. Not thread-safe.
class WaitingJobs {
 public:
  using Job = std::shared_ptr<PeerJob>;
  // Takes the job if a peer has room for it.
  using TryStart = std::function<bool(const Job& job)>;

  void Add(Job job);
  // A job that is sent again. It comes before all others, from its time `not_before` on.
  void AddAgain(Job job);
  // Offers the jobs in order of arrival and turns. If one finds no room, those that wait like it
  // are skipped.
  void Start(absl::Time now, const TryStart& try_start);
  // Removes the jobs that match and returns them.
  std::vector<Job> Take(const std::function<bool(const PeerJob&)>& matches);
  size_t size() const { return size_; }

 private:
  struct Entry {
    uint64_t arrival = 0;
    uint64_t turn = 0;
    Job job;
  };
  struct Queue {
    std::deque<Entry> entries;                   // never empty; by turn, then by arrival
    std::map<std::string, uint64_t> last_turns;  // by problem
    bool full = false;                           // within Start
  };

  std::deque<Job> again_;
  std::vector<Queue> queues_;
  uint64_t arrivals_ = 0;
  size_t size_ = 0;
};

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CLIENTS_WAITING_JOBS_H_
