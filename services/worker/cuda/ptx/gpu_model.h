#ifndef KERNELCAST_SERVICES_WORKER_CUDA_PTX_GPU_MODEL_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_PTX_GPU_MODEL_H_

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "services/worker/cuda/ptx/program.h"

namespace kernelcast::worker::ptx {

// What a GPU can do, by NVIDIA's data sheets and tuning guides, except where gpu_model.cc says that
// it was measured. "A cycle" is one of the multiprocessors' clock.
struct GpuModel {
  std::string_view name;          // as drivers report it begins so: "NVIDIA H200"
  std::string_view architecture;  // "sm_90"
  int multiprocessors = 0;
  double clock_hz = 0;
  double memory_bytes_per_second = 0;
  double l2_bytes = 0;
  double l2_bytes_per_second = 0;
  double l1_bytes = 0;  // of a multiprocessor, together with shared memory
  int max_warps = 0;    // of a multiprocessor
  int max_blocks = 0;
  int64_t registers = 65'536;
  int64_t shared_bytes = 0;
  // Threads' operations a cycle and multiprocessor.
  double float32_lanes = 0;
  double float64_lanes = 0;
  double half_lanes = 0;
  double integer_lanes = 0;
  double special_lanes = 0;
  double conversion_lanes = 0;
  // Operations of dense matrix products a cycle and multiprocessor, by MatrixType.
  std::array<double, kMatrixTypes> matrix_flops = {};
  // The share of those that mma.sync reaches; wgmma reaches all.
  double warp_matrix_share = 1;
  double dram_latency_cycles = 0;
};

std::span<const GpuModel> AllGpuModels();

// The model whose name `device` begins with, or else one of the architecture; nullptr: none.
const GpuModel* FindGpuModel(std::string_view device, std::string_view architecture);

}  // namespace kernelcast::worker::ptx

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_PTX_GPU_MODEL_H_
