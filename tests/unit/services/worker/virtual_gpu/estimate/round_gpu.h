#ifndef KERNELCAST_TESTS_UNIT_SERVICES_WORKER_VIRTUAL_GPU_ESTIMATE_ROUND_GPU_H_
#define KERNELCAST_TESTS_UNIT_SERVICES_WORKER_VIRTUAL_GPU_ESTIMATE_ROUND_GPU_H_

#include <cstdint>
#include <vector>

#include "services/worker/virtual_gpu/estimate/estimate.h"

namespace kernelcast::worker::virtual_gpu::testing {

// A GPU of round values, so that times can be worked out by hand: 10 multiprocessors, on which a
// cycle takes 1 ns.
constexpr GpuModel RoundGpu() {
  return {.name = "Round",
          .architecture = "sm_1",
          .multiprocessors = 10,
          .clock_hz = 1e9,
          .memory_bytes_per_second = 1e12,
          .l2_bytes = 1e6,
          .l2_bytes_per_second = 2e12,
          // 100,000 bytes of cache next to 8 blocks without shared memory.
          .l1_bytes = 100'000 + 8 * 1024,
          .max_warps = 32,
          .max_blocks = 8,
          .shared_bytes = 100 << 10,
          .float32_lanes = 128,
          .float64_lanes = 64,
          .half_lanes = 256,
          .integer_lanes = 64,
          .special_lanes = 16,
          .conversion_lanes = 32,
          .matrix_flops = {1000, 500, 2000, 4000, 100, 1000},
          .warp_matrix_share = 0.5,
          .warp_float8 = false};
}

// A launch that does nothing yet.
inline LaunchCounts Launch(double blocks, double warps) {
  LaunchCounts counts;
  counts.blocks = blocks;
  counts.warps = warps;
  return counts;
}

inline LaunchEstimate EstimateOne(const GpuModel& gpu, const LaunchCounts& counts,
                                  const LaunchResources& resources = {},
                                  const std::vector<BufferSpec>& buffers = {}) {
  return Estimate(gpu, buffers, {&counts, 1}, {&resources, 1}).front();
}

inline double NsOf(const LaunchEstimate& estimate, Resource resource) {
  return estimate.ns[static_cast<size_t>(resource)];
}

}  // namespace kernelcast::worker::virtual_gpu::testing

#endif  // KERNELCAST_TESTS_UNIT_SERVICES_WORKER_VIRTUAL_GPU_ESTIMATE_ROUND_GPU_H_
