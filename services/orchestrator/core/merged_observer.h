#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_CORE_MERGED_OBSERVER_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_CORE_MERGED_OBSERVER_H_

#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "services/orchestrator/core/engine.h"

namespace kernelcast::orchestrator {

// Merges the notifications of several engines for one observer: calls do not overlap, figures are
// summed, overviews joined. Thread-safe. Must outlive the observers that For returned.
class MergedObserver {
 public:
  // `observer` must outlive this object.
  explicit MergedObserver(EngineObserver* observer) : observer_(observer) {}

  // The observer for one engine. When it is destroyed, its figures no longer count.
  std::unique_ptr<EngineObserver> For(int engine);

 private:
  class Part;

  struct Said {
    EngineFigures figures;
    EngineOverview overview;
  };

  EngineFigures Sum() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Forget(int engine);

  std::mutex mutex_;
  EngineObserver* const observer_;
  std::map<int, Said> said_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CORE_MERGED_OBSERVER_H_
