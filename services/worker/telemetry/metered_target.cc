#include "services/worker/telemetry/metered_target.h"

#include "common/base/clock.h"

namespace kernelcast::worker {
namespace {

double SecondsSince(int64_t start_ns) {
  return static_cast<double>(Clock::Real().MonotonicNs() - start_ns) * 1e-9;
}

}  // namespace

absl::StatusOr<CompileResult> MeteredTarget::Compile(const CompileRequest& request,
                                                     const CancelToken& cancel) {
  const int64_t start_ns = Clock::Real().MonotonicNs();
  absl::StatusOr<CompileResult> result = inner().Compile(request, cancel);
  metrics_.Compiled(name_, result, SecondsSince(start_ns));
  return result;
}

absl::StatusOr<Measurement> MeteredTarget::Measure(const MeasureRequest& request,
                                                   const CancelToken& cancel) {
  const int64_t start_ns = Clock::Real().MonotonicNs();
  absl::StatusOr<Measurement> measurement = inner().Measure(request, cancel);
  metrics_.Measured(name_, request.device, measurement, SecondsSince(start_ns));
  return measurement;
}

}  // namespace kernelcast::worker
