#ifndef KERNELCAST_SERVICES_WORKER_CUDA_TARGET_GPU_SELECTION_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_TARGET_GPU_SELECTION_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace kernelcast::worker {

// Returns the numbers of the GPUs selected by `wish`, without duplicates: "all", "none", or a list
// of numbers, UUIDs and prefixes of UUIDs, such as "0,GPU-5f2e". `uuids` are those of the devices
// that the driver shows. INVALID_ARGUMENT: `wish` is malformed or names a missing device.
[[nodiscard]] absl::StatusOr<std::vector<int>> SelectGpus(const std::string& wish,
                                                          const std::vector<std::string>& uuids);

// Returns the value of CUDA_VISIBLE_DEVICES for a process that must see only device number
// `ordinal`. `own` is the variable's value in this process (null: not set) and `count` the number
// of devices that the driver shows. Empty: keep the value.
std::string VisibleDevice(int ordinal, int count, const char* own);

// The processor on which Python runners of a device launch, so that the time of launching does not
// depend on where a process happens to be: not the first or the last, which have other uses. -1:
// there are fewer than three.
int TimingCpu(int ordinal);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_TARGET_GPU_SELECTION_H_
