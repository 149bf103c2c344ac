#ifndef KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_ESTIMATE_ESTIMATE_H_
#define KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_ESTIMATE_ESTIMATE_H_

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "services/worker/virtual_gpu/estimate/gpu_model.h"
#include "services/worker/virtual_gpu/execute/launch.h"

namespace kernelcast::worker::virtual_gpu {

// Resources that can bound the time of a launch.
enum class Resource : uint8_t {
  kDram,
  kL2,
  kLoadStore,  // L1 cache and shared memory
  kIssue,
  kFloat32,
  kInteger,
  kFloat64,
  kHalf,
  kSpecial,
  kConversion,
  kTensor,
  kAtomics,
  kLatency,  // dependent instructions, with as many resident blocks as fit
};
inline constexpr int kResources = static_cast<int>(Resource::kLatency) + 1;
std::string_view Name(Resource resource);

struct LaunchResources {
  int64_t registers = 0;     // per thread
  int64_t shared_bytes = 0;  // per block, static and dynamic
  int64_t stack_bytes = 0;   // per thread: local memory and spilled registers
};

struct LaunchEstimate {
  std::array<double, kResources> ns = {};  // time if this were the only resource
  double total_ns = 0;
  Resource bound = Resource::kLatency;
  double blocks_per_multiprocessor = 0;
  double waves = 0;
  double dram_bytes = 0;
  double l2_bytes = 0;
  double unique_bytes = 0;     // touched by the launch, each byte counted once
  double l2_reuse = 0;         // share of L2 requests served by the L2 cache
  double loads_in_flight = 0;  // per multiprocessor, on average
  double bytes_in_flight = 0;
};

// Estimates the time of each launch, in their order. `buffers` are those that were simulated.
// Launches that are not covered get no time.
std::vector<LaunchEstimate> Estimate(const GpuModel& gpu, std::span<const BufferSpec> buffers,
                                     std::span<const LaunchCounts> launches,
                                     std::span<const LaunchResources> resources);

// A library's operation, of which only the amounts are known.
struct KnownAmounts {
  double bytes = 0;       // read and written
  double operations = 0;  // a multiply-add is two
  // The unit that computes: kFloat32, kFloat64, or kTensor for products of `matrix`.
  Resource unit = Resource::kFloat32;
  MatrixType matrix = MatrixType::kOther;
  double count = 1;  // such operations, one after the other
};

// Estimates the time of all operations together as if each were one launch that reaches the GPU's
// peaks. Only `ns` of DRAM and units, `total_ns`, `bound`, `dram_bytes` and `unique_bytes` are set.
LaunchEstimate EstimateAmounts(const GpuModel& gpu, std::span<const KnownAmounts> operations);

}  // namespace kernelcast::worker::virtual_gpu

#endif  // KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_ESTIMATE_ESTIMATE_H_
