#include "services/worker/cuda/compiler/occupancy.h"

#include <algorithm>
#include <charconv>

namespace kernelcast::worker {
namespace {

constexpr int kWarpThreads = 32;
constexpr int kMaxThreadsPerBlock = 1024;
constexpr int kMaxRegistersPerThread = 255;
constexpr int kPartitions = 4;  // schedulers of a multiprocessor; a warp stays on one
constexpr int64_t kRegisterGranularity = 256;  // per warp
constexpr int64_t kKib = 1024;

int64_t RoundUp(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

}  // namespace

std::optional<MultiprocessorLimits> LimitsOf(std::string_view architecture) {
  if (architecture.substr(0, 3) != "sm_") {
    return std::nullopt;
  }
  int capability = 0;
  const char* const end = architecture.data() + architecture.size();
  const auto [rest, error] = std::from_chars(architecture.data() + 3, end, capability);
  if (error != std::errc() || end - rest > 1 || (rest != end && *rest != 'a' && *rest != 'f')) {
    return std::nullopt;
  }
  const auto make = [](int max_warps, int max_blocks, int64_t shared_kib) {
    MultiprocessorLimits limits;
    limits.max_warps = max_warps;
    limits.max_blocks = max_blocks;
    limits.shared_bytes = shared_kib * kKib;
    limits.reserved_shared_bytes = kKib;
    limits.max_shared_bytes_per_block = limits.shared_bytes - kKib;
    return limits;
  };
  switch (capability) {
    case 75: {
      MultiprocessorLimits limits = make(32, 16, 64);
      limits.reserved_shared_bytes = 0;
      limits.max_shared_bytes_per_block = limits.shared_bytes;
      limits.shared_granularity_bytes = 256;
      return limits;
    }
    case 80: return make(64, 32, 164);
    case 86: return make(48, 16, 100);
    case 87: return make(48, 16, 164);
    case 89: return make(48, 24, 100);
    case 90: return make(64, 32, 228);
    case 100:
    case 103: return make(64, 32, 228);
    case 110: return make(48, 24, 228);
    case 120:
    case 121: return make(48, 24, 100);
    default: return std::nullopt;
  }
}

Occupancy ComputeOccupancy(const MultiprocessorLimits& limits, int64_t threads, int64_t registers,
                           int64_t shared_bytes) {
  Occupancy occupancy;
  if (threads <= 0 || threads > kMaxThreadsPerBlock || registers < 0 ||
      registers > kMaxRegistersPerThread || shared_bytes < 0 ||
      shared_bytes > limits.max_shared_bytes_per_block) {
    return occupancy;
  }
  const int64_t warps = RoundUp(threads, kWarpThreads) / kWarpThreads;
  int64_t blocks = std::min<int64_t>(limits.max_blocks, limits.max_warps / warps);
  if (registers > 0) {
    const int64_t warp_registers = RoundUp(registers * kWarpThreads, kRegisterGranularity);
    // Limit for one block, with its warps rounded up to all partitions.
    if (warp_registers * RoundUp(warps, kPartitions) > limits.registers) {
      return occupancy;
    }
    const int64_t resident_warps = limits.registers / kPartitions / warp_registers * kPartitions;
    blocks = std::min(blocks, resident_warps / warps);
  }
  const int64_t block_shared =
      RoundUp(shared_bytes + limits.reserved_shared_bytes, limits.shared_granularity_bytes);
  if (block_shared > 0) {
    blocks = std::min(blocks, limits.shared_bytes / block_shared);
  }
  occupancy.blocks = static_cast<int>(blocks);
  occupancy.warp_share = static_cast<double>(blocks * warps) / limits.max_warps;
  return occupancy;
}

}  // namespace kernelcast::worker
