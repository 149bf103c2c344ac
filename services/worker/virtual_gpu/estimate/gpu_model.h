#ifndef KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_ESTIMATE_GPU_MODEL_H_
#define KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_ESTIMATE_GPU_MODEL_H_

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "services/worker/virtual_gpu/program.h"

namespace kernelcast::worker::virtual_gpu {

// Performance model of a GPU, from NVIDIA's data sheets and tuning guides. Values missing there
// (latencies, atomics, the start of blocks, local memory) were measured on an H200 by
// tests/bench/gpu/constants/measure.py; other GPUs are assumed to need as many cycles. Cycles are
// those of the multiprocessors' clock.
struct GpuModel {
  std::string_view name;          // prefix of the name that drivers report, e.g. "NVIDIA H200"
  std::string_view architecture;  // e.g. "sm_90"
  int multiprocessors = 0;
  double clock_hz = 0;
  double memory_bytes_per_second = 0;
  double l2_bytes = 0;
  double l2_bytes_per_second = 0;
  double l1_bytes = 0;  // per multiprocessor, shared with shared memory
  int max_warps = 0;    // per multiprocessor
  int max_blocks = 0;
  int64_t registers = 65'536;
  int64_t shared_bytes = 0;
  // Thread operations per cycle and multiprocessor.
  double float32_lanes = 0;
  double float64_lanes = 0;
  double half_lanes = 0;
  double integer_lanes = 0;
  double special_lanes = 0;
  double conversion_lanes = 0;
  // Dense matrix operations per cycle and multiprocessor, by MatrixType.
  std::array<double, kMatrixTypes> matrix_flops = {};
  // Share of the matrix rate that mma.sync reaches; wgmma reaches all of it.
  double warp_matrix_share = 1;
  // Whether mma.sync multiplies float8 itself, or as half precision after converting it (wgmma
  // always does it itself).
  bool warp_float8 = true;

  // Converts a time measured on an H200 to this GPU: the same number of cycles at its own clock.
  double scaled_ns(double h200_ns) const { return h200_ns * 1.98e9 / clock_hz; }
};

std::span<const GpuModel> AllGpuModels();

// Returns the model whose name is a prefix of `device`, or else one of the architecture, or
// nullptr.
const GpuModel* FindGpuModel(std::string_view device, std::string_view architecture);

}  // namespace kernelcast::worker::virtual_gpu

#endif  // KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_ESTIMATE_GPU_MODEL_H_
