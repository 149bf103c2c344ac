// How many blocks run at the same time, and what follows for the time of a launch.

#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/unit/services/worker/virtual_gpu/estimate/round_gpu.h"

namespace kernelcast::worker::virtual_gpu {
namespace {

using testing::EstimateOne;
using testing::Launch;
using testing::NsOf;
using testing::RoundGpu;

TEST_CASE("The scarcest resource limits the resident blocks") {
  struct Example {
    std::string limit;
    double warps;
    int64_t registers;
    int64_t shared_bytes;
    double blocks;
  };
  for (const Example& row : std::vector<Example>{
           {"blocks", 1, 0, 0, 8},
           {"warps", 8, 0, 0, 4},
           {"whole blocks of warps", 5, 0, 0, 6},
           // A quarter of 65,536 registers holds 8 warps of 64 * 32.
           {"registers", 8, 64, 0, 4},
           // A warp takes 100 * 32 registers, rounded up to 3,328: 4 warps for each quarter.
           {"registers in steps of 256", 8, 100, 0, 2},
           // 20,000 bytes and 1,024 of the system, rounded up to 21,120.
           {"shared memory", 1, 0, 20'000, 4},
           {"one block at least", 1, 0, 200 << 10, 1},
           {"the least of all", 8, 100, 20'000, 2},
       }) {
    INFO(row.limit);
    const LaunchEstimate estimate =
        EstimateOne(RoundGpu(), Launch(1, row.warps),
                    {.registers = row.registers, .shared_bytes = row.shared_bytes});
    CHECK(estimate.blocks_per_multiprocessor == row.blocks);
  }
}

TEST_CASE("Blocks that do not fit at once run in waves") {
  struct Example {
    double blocks;
    double waves;
    double rounds;
  };
  // Four blocks of 8 warps fit on each of 10 multiprocessors. A block takes 1,000 cycles and 300 to
  // start and end.
  for (const Example& row : std::vector<Example>{
           {20, 0.5, 1},
           {40, 1, 1},
           {100, 2.5, 2.75},
           {400, 10, 10.5},
       }) {
    INFO(row.blocks);
    LaunchCounts counts = Launch(row.blocks, 8);
    counts.block_cycles = 1000;
    const LaunchEstimate estimate = EstimateOne(RoundGpu(), counts);
    CHECK(estimate.waves == row.waves);
    CHECK(NsOf(estimate, Resource::kLatency) == Approx(1300 * row.rounds));
  }
}

TEST_CASE("A block with memory accesses takes longer to start, by its warps") {
  LaunchCounts counts = Launch(10, 8);
  counts.block_cycles = 1000;
  counts.counters.global_lines = 1;
  CHECK(NsOf(EstimateOne(RoundGpu(), counts), Resource::kLatency) == Approx(1000 + 280 + 15 * 8));
}

TEST_CASE("Starting many short blocks takes its time") {
  GpuModel gpu = RoundGpu();
  gpu.max_blocks = 64;
  gpu.max_warps = 256;
  // 640 blocks fit at once, so that waiting takes 10.5 * 300 ns. Each multiprocessor starts a warp
  // in 5.8 cycles.
  CHECK(NsOf(EstimateOne(gpu, Launch(6400, 4)), Resource::kLatency) == Approx(6400 * 4 * 5.8 / 10));
  // With fewer warps, blocks are the limit: 0.605 ns each at 1.98 GHz.
  gpu.max_blocks = 256;
  gpu.multiprocessors = 100;
  CHECK(NsOf(EstimateOne(gpu, Launch(25'600, 1)), Resource::kLatency) ==
        Approx(25'600 * 0.605 * 1.98));
}

TEST_CASE("Blocks that wait for earlier ones form a chain") {
  LaunchCounts counts = Launch(50, 1);  // all at once
  counts.block_cycles = 1000;
  counts.waits = Waits::kAfterPublishing;
  CHECK(NsOf(EstimateOne(RoundGpu(), counts), Resource::kLatency) == Approx(1300 + 540 * 10));
  counts.waits = Waits::kBeforePublishing;
  CHECK(NsOf(EstimateOne(RoundGpu(), counts), Resource::kLatency) == Approx(1300 + 1080 * 50));
}

TEST_CASE("The loads in flight are an average over the multiprocessors and the time") {
  LaunchCounts counts = Launch(40, 8);
  counts.block_cycles = 1000;
  counts.counters.load_cycles = 26'000;
  counts.counters.load_byte_cycles = 26'000 * 128;
  const LaunchEstimate estimate = EstimateOne(RoundGpu(), counts);
  CHECK(estimate.loads_in_flight == Approx(26'000.0 / 1300 / 10));
  CHECK(estimate.bytes_in_flight == Approx(26'000.0 * 128 / 1300 / 10));
}

}  // namespace
}  // namespace kernelcast::worker::virtual_gpu
