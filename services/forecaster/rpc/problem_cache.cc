#include "services/forecaster/rpc/problem_cache.h"

#include <utility>

namespace kernelcast::forecaster {

std::shared_ptr<const ProblemContext> ProblemCache::Find(const std::string& problem_id) {
  std::lock_guard lock(mutex_);
  const auto found = by_id_.find(problem_id);
  if (found == by_id_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found->second);
  return *found->second;
}

void ProblemCache::Put(std::shared_ptr<const ProblemContext> problem) {
  std::lock_guard lock(mutex_);
  const std::string& id = problem->problem.problem_id;
  if (const auto found = by_id_.find(id); found != by_id_.end()) {
    entries_.splice(entries_.begin(), entries_, found->second);
    return;
  }
  bytes_ += problem->SizeBytes();
  entries_.push_front(std::move(problem));
  by_id_.emplace(entries_.front()->problem.problem_id, entries_.begin());
  while (entries_.size() > 1 && (entries_.size() > max_problems_ || bytes_ > max_bytes_)) {
    bytes_ -= entries_.back()->SizeBytes();
    by_id_.erase(entries_.back()->problem.problem_id);
    entries_.pop_back();
  }
}

}  // namespace kernelcast::forecaster
