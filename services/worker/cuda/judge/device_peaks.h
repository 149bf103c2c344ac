#ifndef KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_DEVICE_PEAKS_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_DEVICE_PEAKS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "common/domain/measurement.h"
#include "services/worker/core/cancel.h"
#include "services/worker/cuda/api/cuda_api.h"
#include "services/worker/cuda/judge/device.h"
#include "services/worker/cuda/judge/device_monitor.h"
#include "services/worker/lease/timing_lease.h"

namespace kernelcast::worker {

// Hardware properties that bound a device's speed.
struct DeviceClocks {
  int major = 0;
  int minor = 0;
  int multiprocessors = 0;
  double clock_hz = 0;
  double memory_clock_hz = 0;
  int memory_bus_bits = 0;
};

// Reads the attributes of the device, without a context.
[[nodiscard]] absl::StatusOr<DeviceClocks> ReadClocks(const CudaApi& api, CUdevice device);

// Sets clocks that the attributes leave out to NVML's maxima.
void FillClocks(const DeviceMonitor& monitor, DeviceClocks& clocks);

// Returns "memory", from the memory's clock and width, and dense operations by data type, from the
// clock and a table of rates by compute capability. Types missing in the table are left out.
std::vector<DevicePeak> PeaksOf(const DeviceClocks& clocks);

// Measures "memory_copy": the rate of copying on the device, counting bytes read and written, which
// kernels can approach. Takes a few milliseconds under the timing lease, and half a GiB of device
// memory. DEADLINE_EXCEEDED, CANCELLED: the token stopped while waiting for the lease.
[[nodiscard]] absl::StatusOr<DevicePeak> MeasureCopy(CudaDevice& device, TimingLease& lease,
                                                     const CancelToken& cancel);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_DEVICE_PEAKS_H_
