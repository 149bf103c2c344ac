#include "services/worker/virtual_gpu/estimate/gpu_model.h"

namespace kernelcast::worker::virtual_gpu {
namespace {

constexpr GpuModel kH100 = {.name = "NVIDIA H100",
                            .architecture = "sm_90",
                            .multiprocessors = 132,
                            .clock_hz = 1.98e9,
                            .memory_bytes_per_second = 3.35e12,
                            .l2_bytes = 50e6,
                            .l2_bytes_per_second = 5.6e12,
                            .l1_bytes = 256 << 10,
                            .max_warps = 64,
                            .max_blocks = 32,
                            .shared_bytes = 228 << 10,
                            .float32_lanes = 128,
                            .float64_lanes = 64,
                            .half_lanes = 128,
                            .integer_lanes = 64,
                            .special_lanes = 16,
                            .conversion_lanes = 64,
                            .matrix_flops = {4096, 2048, 8192, 8192, 256, 4096},
                            .warp_matrix_share = 0.62,
                            .warp_float8 = false};

// The same chip with other memory.
constexpr GpuModel H200() {
  GpuModel model = kH100;
  model.name = "NVIDIA H200";
  model.memory_bytes_per_second = 4.8e12;
  return model;
}

constexpr GpuModel kModels[] = {
    {.name = "NVIDIA A100",
     .architecture = "sm_80",
     .multiprocessors = 108,
     .clock_hz = 1.41e9,
     .memory_bytes_per_second = 1.935e12,
     .l2_bytes = 40e6,
     .l2_bytes_per_second = 4.0e12,
     .l1_bytes = 192 << 10,
     .max_warps = 64,
     .max_blocks = 32,
     .shared_bytes = 164 << 10,
     .float32_lanes = 64,
     .float64_lanes = 32,
     .half_lanes = 64,
     .integer_lanes = 64,
     .special_lanes = 16,
     .conversion_lanes = 16,
     .matrix_flops = {2048, 1024, 2048, 4096, 128, 2048},
     .warp_matrix_share = 0.95},
    {.name = "NVIDIA L40S",
     .architecture = "sm_89",
     .multiprocessors = 142,
     .clock_hz = 2.52e9,
     .memory_bytes_per_second = 0.864e12,
     .l2_bytes = 96e6,
     .l2_bytes_per_second = 3.6e12,
     .l1_bytes = 128 << 10,
     .max_warps = 48,
     .max_blocks = 24,
     .shared_bytes = 100 << 10,
     .float32_lanes = 128,
     .float64_lanes = 2,
     .half_lanes = 128,
     .integer_lanes = 64,
     .special_lanes = 16,
     .conversion_lanes = 16,
     .matrix_flops = {1024, 512, 2048, 2048, 4, 1024},
     .warp_matrix_share = 0.95},
    kH100,
    H200(),
};

}  // namespace

std::span<const GpuModel> AllGpuModels() { return kModels; }

const GpuModel* FindGpuModel(std::string_view device, std::string_view architecture) {
  for (const GpuModel& model : kModels) {
    if (!device.empty() && device.substr(0, model.name.size()) == model.name) return &model;
  }
  // Use the last model of an architecture: "sm_90a" means an H200.
  const GpuModel* found = nullptr;
  for (const GpuModel& model : kModels) {
    if (architecture.substr(0, model.architecture.size()) == model.architecture) found = &model;
  }
  return found;
}

}  // namespace kernelcast::worker::virtual_gpu
