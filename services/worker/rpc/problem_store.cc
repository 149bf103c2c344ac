#include "services/worker/rpc/problem_store.h"

#include <utility>

namespace kernelcast::worker {

void ProblemStore::Put(Problem problem) {
  int64_t bytes = 0;
  for (const ProblemFile& file : problem.files) {
    bytes += static_cast<int64_t>(file.path.size() + file.content.size());
  }
  auto shared = std::make_shared<const Problem>(std::move(problem));
  const std::lock_guard lock(mutex_);
  if (const auto found = by_id_.find(shared->problem_id); found != by_id_.end()) {
    entries_.splice(entries_.begin(), entries_, found->second);
    return;
  }
  entries_.push_front({shared, bytes});
  by_id_[shared->problem_id] = entries_.begin();
  bytes_ += bytes;
  while (entries_.size() > 1 && (std::ssize(entries_) > max_problems_ || bytes_ > max_bytes_)) {
    bytes_ -= entries_.back().bytes;
    by_id_.erase(entries_.back().problem->problem_id);
    entries_.pop_back();
  }
}

std::shared_ptr<const Problem> ProblemStore::Find(const std::string& problem_id) {
  const std::lock_guard lock(mutex_);
  const auto found = by_id_.find(problem_id);
  if (found == by_id_.end()) {
    return nullptr;
  }
  entries_.splice(entries_.begin(), entries_, found->second);
  return found->second->problem;
}

int64_t ProblemStore::size() const {
  const std::lock_guard lock(mutex_);
  return std::ssize(entries_);
}

}  // namespace kernelcast::worker
