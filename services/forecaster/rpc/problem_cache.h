#ifndef KERNELCAST_SERVICES_FORECASTER_RPC_PROBLEM_CACHE_H_
#define KERNELCAST_SERVICES_FORECASTER_RPC_PROBLEM_CACHE_H_

#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "services/forecaster/core/problem_context.h"

namespace kernelcast::forecaster {

// Problems in memory. The least recently used are dropped above a number and a size. Thread-safe.
class ProblemCache {
 public:
  ProblemCache(size_t max_problems, size_t max_bytes)
      : max_problems_(max_problems), max_bytes_(max_bytes) {}

  // nullptr: not in the cache.
  std::shared_ptr<const ProblemContext> Find(const std::string& problem_id);
  void Put(std::shared_ptr<const ProblemContext> problem);

 private:
  // Front: most recently used. Shared, because calls in flight may use a dropped problem.
  using Entries = std::list<std::shared_ptr<const ProblemContext>>;

  const size_t max_problems_;
  const size_t max_bytes_;
  std::mutex mutex_;  // guards the members below
  Entries entries_;
  std::unordered_map<std::string, Entries::iterator> by_id_;
  size_t bytes_ = 0;
};

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_RPC_PROBLEM_CACHE_H_
