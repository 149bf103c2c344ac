#ifndef KERNELCAST_SERVICES_WORKER_CUDA_PTX_ESTIMATE_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_PTX_ESTIMATE_H_

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "services/worker/cuda/ptx/gpu_model.h"
#include "services/worker/cuda/ptx/simulator.h"

namespace kernelcast::worker::ptx {

// What a launch may spend its time on.
enum class Resource : uint8_t {
  kDram,
  kL2,
  kLoadStore,  // first-level cache and shared memory
  kIssue,
  kFloat32,
  kInteger,
  kFloat64,
  kHalf,
  kSpecial,
  kConversion,
  kTensor,
  kAtomics,
  kLatency,  // of dependent instructions, with as many blocks at a time as fit
};
inline constexpr int kResources = static_cast<int>(Resource::kLatency) + 1;
std::string_view Name(Resource resource);

struct LaunchResources {
  int64_t registers = 0;     // of a thread
  int64_t shared_bytes = 0;  // of a block, static and dynamic
};

struct LaunchEstimate {
  std::array<double, kResources> ns = {};  // if nothing else took time
  double total_ns = 0;
  Resource bound = Resource::kLatency;
  double blocks_per_multiprocessor = 0;
  double waves = 0;
  double dram_bytes = 0;
  double l2_bytes = 0;
  double unique_bytes = 0;     // that the launch touches, without what it touches again
  double l2_reuse = 0;         // share of what the second-level cache is asked for that it holds
  double loads_in_flight = 0;  // of a multiprocessor, on average
  double bytes_in_flight = 0;
};

// How long each launch takes, in their order. `buffers` as they were simulated. What was not
// covered takes no time.
std::vector<LaunchEstimate> Estimate(const GpuModel& gpu, std::span<const BufferSpec> buffers,
                                     std::span<const LaunchCounts> launches,
                                     std::span<const LaunchResources> resources);

}  // namespace kernelcast::worker::ptx

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_PTX_ESTIMATE_H_
