#include "services/orchestrator/clients/waiting_jobs.h"

#include <algorithm>
#include <utility>

namespace kernelcast::orchestrator {

void WaitingJobs::Add(Job job) {
  auto queue = std::ranges::find_if(
      queues_, [&](const Queue& other) { return other.entries.front().job->WaitsLike(*job); });
  if (queue == queues_.end()) queue = queues_.insert(queues_.end(), Queue());
  std::deque<Entry>& entries = queue->entries;
  uint64_t& last = queue->last_turns[job->problem == nullptr ? "" : job->problem->problem_id];
  // The front's turn has come: what arrives now does not go before it.
  last = std::max(last + 1, entries.empty() ? 1 : entries.front().turn);
  const auto after = std::ranges::upper_bound(entries, last, {}, &Entry::turn);
  entries.insert(after, Entry{++arrivals_, last, std::move(job)});
  ++size_;
}

void WaitingJobs::AddAgain(Job job) {
  again_.push_front(std::move(job));
  ++size_;
}

void WaitingJobs::Start(absl::Time now, const TryStart& try_start) {
  size_ -= std::erase_if(again_,
                         [&](const Job& job) { return job->not_before <= now && try_start(job); });
  for (Queue& queue : queues_) queue.full = false;
  while (true) {
    auto first = queues_.end();
    for (auto queue = queues_.begin(); queue != queues_.end(); ++queue) {
      if (queue->full) continue;
      const bool earlier =
          first == queues_.end() || queue->entries.front().arrival < first->entries.front().arrival;
      if (earlier) first = queue;
    }
    if (first == queues_.end()) return;
    if (!try_start(first->entries.front().job)) {
      first->full = true;
      continue;
    }
    --size_;
    first->entries.pop_front();
    if (first->entries.empty()) queues_.erase(first);
  }
}

std::vector<WaitingJobs::Job> WaitingJobs::Take(
    const std::function<bool(const PeerJob&)>& matches) {
  std::vector<Job> taken;
  std::erase_if(again_, [&](const Job& job) {
    if (!matches(*job)) return false;
    taken.push_back(job);
    return true;
  });
  for (Queue& queue : queues_) {
    std::erase_if(queue.entries, [&](const Entry& entry) {
      if (!matches(*entry.job)) return false;
      taken.push_back(entry.job);
      return true;
    });
  }
  std::erase_if(queues_, [](const Queue& queue) { return queue.entries.empty(); });
  size_ -= taken.size();
  return taken;
}

}  // namespace kernelcast::orchestrator
