#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_CORE_MERGED_OBSERVER_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_CORE_MERGED_OBSERVER_H_

#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "services/orchestrator/core/engine.h"

namespace kernelcast::orchestrator {

// Lets several engines tell one observer, which sees them as one: one call at a time, figures
// summed, overviews joined. Thread-safe; must outlive what For returned.
class MergedObserver {
 public:
  // `observer` must outlive this object.
  explicit MergedObserver(EngineObserver* observer) : observer_(observer) {}

  // For one engine. What it said counts no more when it is gone.
  std::unique_ptr<EngineObserver> For(int engine);

  EngineFigures figures() const;

 private:
  class Part;

  struct Said {
    EngineFigures figures;
    EngineOverview overview;
  };

  EngineFigures Sum() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Forget(int engine);

  mutable std::mutex mutex_;
  EngineObserver* const observer_;
  std::map<int, Said> said_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CORE_MERGED_OBSERVER_H_
