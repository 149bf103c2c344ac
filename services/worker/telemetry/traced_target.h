#ifndef KERNELCAST_SERVICES_WORKER_TELEMETRY_TRACED_TARGET_H_
#define KERNELCAST_SERVICES_WORKER_TELEMETRY_TRACED_TARGET_H_

#include <memory>
#include <utility>

#include "services/worker/core/target_decorator.h"

namespace kernelcast::worker {

// Makes a span of each compile, measurement and profile, in the trace of the calling thread.
class TracedTarget final : public TargetDecorator {
 public:
  explicit TracedTarget(std::unique_ptr<Target> inner) : TargetDecorator(std::move(inner)) {}

  absl::StatusOr<CompileResult> Compile(const CompileRequest& request,
                                        const CancelToken& cancel) override;
  absl::StatusOr<Measurement> Measure(const MeasureRequest& request,
                                      const CancelToken& cancel) override;
  absl::StatusOr<Profile> ProfileCandidate(const MeasureRequest& request,
                                           const CancelToken& cancel) override;
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_TELEMETRY_TRACED_TARGET_H_
