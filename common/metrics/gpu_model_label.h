#ifndef KERNELCAST_COMMON_METRICS_GPU_MODEL_LABEL_H_
#define KERNELCAST_COMMON_METRICS_GPU_MODEL_LABEL_H_

#include <array>
#include <string_view>

namespace kernelcast {

// All values of the label `gpu_model`. For the target cuda it is the GPU model if that is in this
// list, otherwise "cuda". Other targets are "cpu" or "other", unless the target itself is a model
// in this list.
inline constexpr std::array<std::string_view, 15> kGpuModelLabels = {
    "cpu", "cuda", "v100", "t4",   "a10",   "a30",  "a100", "l4",
    "l40", "l40s", "h100", "h200", "gh200", "b200", "other"};

// Label for a target and the device name as its driver reports it ("NVIDIA H100 80GB HBM3"). The
// device name may be empty if unknown.
std::string_view GpuModelLabel(std::string_view target, std::string_view device);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_METRICS_GPU_MODEL_LABEL_H_
