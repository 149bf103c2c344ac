#include "services/worker/cuda/compiler/occupancy.h"

#include <cuda_occupancy.h>

#include <catch2/catch.hpp>
#include <string>

namespace kernelcast::worker {
namespace {

struct Architecture {
  const char* name;
  int major;
  int minor;
};

constexpr Architecture kArchitectures[] = {
    {"sm_75", 7, 5}, {"sm_80", 8, 0},   {"sm_86", 8, 6},   {"sm_89", 8, 9},
    {"sm_90", 9, 0}, {"sm_100", 10, 0}, {"sm_103", 10, 3}, {"sm_120", 12, 0},
};

// NVIDIA's own calculation. Device properties come from our tables.
int ByNvidia(const Architecture& architecture, const MultiprocessorLimits& limits, int threads,
             int registers, int shared_bytes) {
  cudaOccDeviceProp device;
  device.computeMajor = architecture.major;
  device.computeMinor = architecture.minor;
  device.maxThreadsPerBlock = 1024;
  device.maxThreadsPerMultiprocessor = limits.max_warps * 32;
  device.regsPerBlock = 65536;
  device.regsPerMultiprocessor = 65536;
  device.warpSize = 32;
  device.sharedMemPerBlock = 48 << 10;
  device.sharedMemPerMultiprocessor = static_cast<size_t>(limits.shared_bytes);
  device.numSms = 100;
  device.sharedMemPerBlockOptin = static_cast<size_t>(limits.max_shared_bytes_per_block);
  device.reservedSharedMemPerBlock = static_cast<size_t>(limits.reserved_shared_bytes);
  cudaOccFuncAttributes function;
  function.maxThreadsPerBlock = 1024;
  function.numRegs = registers;
  function.sharedSizeBytes = 0;
  function.partitionedGCConfig = PARTITIONED_GC_OFF;
  function.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
  function.maxDynamicSharedSizeBytes = static_cast<size_t>(limits.max_shared_bytes_per_block);
  function.numBlockBarriers = 1;
  cudaOccDeviceState state;
  state.carveoutConfig = SHAREDMEM_CARVEOUT_MAX_SHARED;
  cudaOccResult result{};
  REQUIRE(cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &function, &state, threads,
                                                  static_cast<size_t>(shared_bytes)) ==
          CUDA_OCC_SUCCESS);
  return result.activeBlocksPerMultiprocessor;
}

TEST_CASE("Occupancy matches NVIDIA's calculator everywhere") {
  int compared = 0;
  for (const Architecture& architecture : kArchitectures) {
    const auto limits = LimitsOf(architecture.name);
    REQUIRE(limits.has_value());
    for (const int threads :
         {1, 32, 33, 64, 96, 128, 192, 256, 320, 384, 512, 640, 768, 1000, 1024}) {
      for (const int registers : {8, 16, 24, 32, 40, 41, 48, 64, 72, 96, 127, 128, 168, 200, 255}) {
        for (const int shared_bytes : {0, 1, 512, 1024, 8192, 16384, 33 << 10, 48 << 10, 64 << 10,
                                       99 << 10, 100 << 10, 163 << 10, 227 << 10}) {
          INFO(architecture.name << " threads " << threads << " registers " << registers
                                 << " shared " << shared_bytes);
          CHECK(ComputeOccupancy(*limits, threads, registers, shared_bytes).blocks ==
                ByNvidia(architecture, *limits, threads, registers, shared_bytes));
          ++compared;
        }
      }
    }
  }
  CHECK(compared > 20'000);
}

TEST_CASE("Occupancy has its worked values") {
  const auto hopper = LimitsOf("sm_90a");
  REQUIRE(hopper.has_value());
  // 65536 registers / (128 * 256) = 2 blocks of 8 warps, of 64.
  CHECK(ComputeOccupancy(*hopper, 256, 128, 0).blocks == 2);
  CHECK(ComputeOccupancy(*hopper, 256, 128, 0).warp_share == Approx(0.25));
  CHECK(ComputeOccupancy(*hopper, 1024, 32, 0).warp_share == Approx(1.0));
  // 228 KiB / (100 KiB + 1 KiB for the system).
  CHECK(ComputeOccupancy(*hopper, 128, 32, 100 << 10).blocks == 2);
  const auto ada = LimitsOf("sm_89");
  CHECK(ComputeOccupancy(*ada, 1024, 32, 0).blocks == 1);
  CHECK(ComputeOccupancy(*ada, 1024, 32, 0).warp_share == Approx(32.0 / 48));
}

TEST_CASE("A launch that cannot run has zero occupancy") {
  const auto limits = LimitsOf("sm_80");
  REQUIRE(limits.has_value());
  CHECK(ComputeOccupancy(*limits, 0, 32, 0).blocks == 0);
  CHECK(ComputeOccupancy(*limits, 1025, 32, 0).blocks == 0);
  CHECK(ComputeOccupancy(*limits, 1024, 128, 0).blocks == 0);
  CHECK(ComputeOccupancy(*limits, 128, 32, 164 << 10).blocks == 0);
  CHECK(ComputeOccupancy(*limits, 128, 32, 163 << 10).blocks == 1);
}

TEST_CASE("Architectures are looked up by name, with or without a suffix") {
  CHECK(LimitsOf("sm_100f").has_value());
  CHECK(LimitsOf("sm_90a")->max_warps == 64);
  for (const char* name : {"", "sm_", "sm_99", "90", "sm_90ab", "compute_90", "sm_90x"}) {
    INFO(name);
    CHECK_FALSE(LimitsOf(name).has_value());
  }
}

}  // namespace
}  // namespace kernelcast::worker
