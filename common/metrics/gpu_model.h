#ifndef KERNELCAST_COMMON_METRICS_GPU_MODEL_H_
#define KERNELCAST_COMMON_METRICS_GPU_MODEL_H_

#include <array>
#include <string_view>

namespace kernelcast {

// Every value of the label `gpu_model`. Targets are cpu, cuda or a model; of what runs on the
// target cuda the model counts, where it is one of these.
inline constexpr std::array<std::string_view, 15> kGpuModels = {
    "cpu", "cuda", "v100", "t4",   "a10",   "a30",  "a100", "l4",
    "l40", "l40s", "h100", "h200", "gh200", "b200", "other"};

// Of a target, and of the device as its driver names it ("NVIDIA H100 80GB HBM3"), which may be
// empty where it is not known.
std::string_view GpuModelOf(std::string_view target, std::string_view device);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_METRICS_GPU_MODEL_H_
