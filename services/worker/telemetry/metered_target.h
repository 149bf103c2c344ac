#ifndef KERNELCAST_SERVICES_WORKER_TELEMETRY_METERED_TARGET_H_
#define KERNELCAST_SERVICES_WORKER_TELEMETRY_METERED_TARGET_H_

#include <memory>
#include <string>
#include <utility>

#include "services/worker/core/target_decorator.h"
#include "services/worker/telemetry/worker_metrics.h"

namespace kernelcast::worker {

// Counts compiles and measurements by result, and their durations.
class MeteredTarget final : public TargetDecorator {
 public:
  // `name` is the target's. `metrics` must outlive this object.
  MeteredTarget(std::unique_ptr<Target> inner, std::string name, WorkerMetrics& metrics)
      : TargetDecorator(std::move(inner)), name_(std::move(name)), metrics_(metrics) {}

  absl::StatusOr<CompileResult> Compile(const CompileRequest& request,
                                        const CancelToken& cancel) override;
  absl::StatusOr<Measurement> Measure(const MeasureRequest& request,
                                      const CancelToken& cancel) override;

 private:
  const std::string name_;
  WorkerMetrics& metrics_;
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_TELEMETRY_METERED_TARGET_H_
