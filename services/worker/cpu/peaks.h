#ifndef KERNELCAST_SERVICES_WORKER_CPU_PEAKS_H_
#define KERNELCAST_SERVICES_WORKER_CPU_PEAKS_H_

#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/domain/measurement.h"
#include "services/worker/core/cancel.h"
#include "services/worker/cpu/placement.h"
#include "services/worker/cpu/runner_process.h"
#include "services/worker/lease/timing_lease.h"

namespace kernelcast::worker {

// Source of a C entry that measures the peaks of one core: copies at three sizes, and multiply-adds
// of float32 and float64 in the widest vectors. Compiled like a candidate.
std::string_view CpuPeaksSource();

// Runs the compiled source in a runner for about 50 ms, under the timing lease. UNAVAILABLE: the
// process failed or returned no plausible number. DEADLINE_EXCEEDED, CANCELLED: the token stopped
// while waiting for the lease.
[[nodiscard]] absl::StatusOr<std::vector<DevicePeak>> MeasureCpuPeaks(const LoadableObject& object,
                                                                      const RunnerOptions& options,
                                                                      const Placement& placement,
                                                                      TimingLease& lease,
                                                                      const CancelToken& cancel);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CPU_PEAKS_H_
