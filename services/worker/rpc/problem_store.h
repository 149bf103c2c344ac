#ifndef KERNELCAST_SERVICES_WORKER_RPC_PROBLEM_STORE_H_
#define KERNELCAST_SERVICES_WORKER_RPC_PROBLEM_STORE_H_

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "common/domain/problem.h"

namespace kernelcast::worker {

// Problems by id. Forgets the least recently used. Thread-safe.
class ProblemStore {
 public:
  ProblemStore(int64_t max_problems, int64_t max_bytes)
      : max_problems_(max_problems), max_bytes_(max_bytes) {}

  void Put(Problem problem);
  // Returns nullptr if unknown. Shared with calls in flight, which may outlive the entry.
  std::shared_ptr<const Problem> Find(const std::string& problem_id);
  int64_t size() const;

 private:
  struct Entry {
    std::shared_ptr<const Problem> problem;
    int64_t bytes = 0;
  };

  const int64_t max_problems_;
  const int64_t max_bytes_;
  mutable std::mutex mutex_;
  // State below is protected by mutex_.
  std::list<Entry> entries_;  // most recently used first
  std::unordered_map<std::string, std::list<Entry>::iterator> by_id_;
  int64_t bytes_ = 0;
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_RPC_PROBLEM_STORE_H_
