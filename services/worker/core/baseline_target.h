#ifndef KERNELCAST_SERVICES_WORKER_CORE_BASELINE_TARGET_H_
#define KERNELCAST_SERVICES_WORKER_CORE_BASELINE_TARGET_H_

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>

#include "services/worker/core/target_decorator.h"

namespace kernelcast::worker {

// Compares right candidates of tasks that ask for it with the reference under torch.compile,
// which it measures as a candidate, once for each device and level. Where that fails, the result
// says why, and its other figures stay. The device time of the first measurement includes that of
// the baseline.
class BaselineTarget final : public TargetDecorator {
 public:
  explicit BaselineTarget(std::unique_ptr<Target> inner) : TargetDecorator(std::move(inner)) {}

  absl::StatusOr<Measurement> Measure(const MeasureRequest& request,
                                      const CancelToken& cancel) override;

 private:
  // One measurement of the compiled reference.
  struct Baseline {
    std::mutex mutex;  // held while it is measured
    // State below is protected by mutex.
    std::unique_ptr<const Measurement> measurement;
  };
  using Key = std::tuple<std::string, size_t, MeasureLevel>;  // problem, device

  // Shared by the calls that wait for it.
  std::shared_ptr<Baseline> Find(const MeasureRequest& request);

  std::mutex mutex_;
  // State below is protected by mutex_.
  std::map<Key, std::shared_ptr<Baseline>> baselines_;
};

// Compares a candidate with the compiled reference, both measured against the reference.
CompiledBaseline CompareWithBaseline(const MeasuredOk& candidate, const Measurement& baseline);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CORE_BASELINE_TARGET_H_
