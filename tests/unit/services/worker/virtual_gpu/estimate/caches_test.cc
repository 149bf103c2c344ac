// Traffic of the L2 cache and DRAM, by the footprint of the blocks.

#include <catch2/catch.hpp>
#include <cstdint>
#include <vector>

#include "tests/unit/services/worker/virtual_gpu/estimate/round_gpu.h"

namespace kernelcast::worker::virtual_gpu {
namespace {

using testing::EstimateOne;
using testing::Launch;
using testing::NsOf;
using testing::RoundGpu;

constexpr double kSector = 32;

// Ten blocks, one for each multiprocessor. Each reads 200,000 bytes of its own, `times` in all.
LaunchCounts ReadsOwn(double times) {
  LaunchCounts counts = Launch(10, 4);
  counts.counters.read_new[0] = 2e6 / kSector;
  counts.counters.read_halves[0] = 2e6 / (2 * kSector);
  counts.counters.read_sectors[0] = times * 2e6 / kSector;
  return counts;
}
std::vector<BufferSpec> OwnBuffer() { return {{.bytes = 2'000'000}}; }

TEST_CASE("What is read once takes its bytes over 92% of the memory's rate") {
  const LaunchEstimate estimate = EstimateOne(RoundGpu(), ReadsOwn(1), {}, OwnBuffer());
  CHECK(estimate.unique_bytes == Approx(2e6));
  CHECK(estimate.dram_bytes == Approx(2e6));
  CHECK(estimate.l2_bytes == Approx(2e6));
  CHECK(estimate.l2_reuse == Approx(0).margin(1e-9));
  CHECK(NsOf(estimate, Resource::kDram) == Approx(2e6 / 920));
}

TEST_CASE("The L2 cache is bound by its rate or by the ports of the multiprocessors in use") {
  GpuModel gpu = RoundGpu();
  // Ten ports of 64 bytes per cycle.
  CHECK(NsOf(EstimateOne(gpu, ReadsOwn(1), {}, OwnBuffer()), Resource::kL2) == Approx(2e6 / 640));
  gpu.l2_bytes_per_second = 4e11;
  CHECK(NsOf(EstimateOne(gpu, ReadsOwn(1), {}, OwnBuffer()), Resource::kL2) == Approx(2e6 / 400));
}

TEST_CASE("The L1 cache serves as much of the second read as fits") {
  // The cache holds 100,000 of a block's 200,000 bytes.
  LaunchEstimate estimate = EstimateOne(RoundGpu(), ReadsOwn(2), {}, OwnBuffer());
  CHECK(estimate.l2_bytes == Approx(2e6 + 1e6));
  // Shared memory takes from it: 8 blocks of 5,000 bytes.
  estimate = EstimateOne(RoundGpu(), ReadsOwn(2), {.shared_bytes = 5000}, OwnBuffer());
  CHECK(estimate.l2_bytes == Approx(2e6 + 1.4e6));
  // With five blocks on each multiprocessor, all need ten times as much as there is.
  LaunchCounts counts = ReadsOwn(2);
  counts.blocks = 50;
  counts.counters.read_new[0] *= 5;
  counts.counters.read_sectors[0] *= 5;
  estimate = EstimateOne(RoundGpu(), counts, {}, {{.bytes = 10'000'000}});
  CHECK(estimate.l2_bytes == Approx(10e6 + 9e6));
}

TEST_CASE("The L2 cache serves second reads until the concurrent ones exceed it") {
  struct Example {
    double l2_bytes;
    double held;
  };
  // A megabyte is read again from two that ten blocks read at the same time.
  for (const Example& row : std::vector<Example>{{1e6, 0}, {2e6 / 1.05, 0.5}, {4e6, 1}}) {
    GpuModel gpu = RoundGpu();
    gpu.l2_bytes = row.l2_bytes;
    const LaunchEstimate estimate = EstimateOne(gpu, ReadsOwn(2), {}, OwnBuffer());
    INFO(row.l2_bytes);
    CHECK(estimate.dram_bytes == Approx(2e6 + (1 - row.held) * 1e6));
    CHECK(estimate.l2_reuse == Approx(row.held / 3).margin(1e-9));
  }
}

TEST_CASE("Data that all blocks read comes from DRAM once") {
  LaunchCounts counts = Launch(100, 4);
  // Each block reads the whole buffer of 64,000 bytes.
  counts.counters.read_new[0] = 100 * 64e3 / kSector;
  counts.counters.read_halves[0] = 100 * 64e3 / (2 * kSector);
  counts.counters.read_sectors[0] = counts.counters.read_new[0];
  LaunchEstimate estimate = EstimateOne(RoundGpu(), counts, {}, {{.bytes = 64'000}});
  CHECK(estimate.dram_bytes == Approx(64e3));
  CHECK(estimate.l2_bytes == Approx(100 * 64e3));
  // Less than 40% of the L1 cache stays there, so that each multiprocessor reads it once.
  counts.counters.read_new[0] /= 2;
  counts.counters.read_sectors[0] /= 2;
  estimate = EstimateOne(RoundGpu(), counts, {}, {{.bytes = 32'000}});
  CHECK(estimate.dram_bytes == Approx(32e3));
  CHECK(estimate.l2_bytes == Approx(10 * 32e3));
}

TEST_CASE("Sectors that are written in part are read first, by half lines") {
  LaunchCounts counts = Launch(10, 4);
  counts.counters.write_new[0] = 1e5;
  counts.counters.write_sectors[0] = 1e5;
  counts.counters.write_halves[0] = 5e4;
  const auto dram_bytes = [&](double written, int64_t buffer) {
    counts.counters.write_bytes[0] = written;
    return EstimateOne(RoundGpu(), counts, {}, {{.bytes = buffer}}).dram_bytes;
  };
  CHECK(dram_bytes(3.2e6, 10'000'000) == Approx(3.2e6));
  // Nearly whole sectors count as whole.
  CHECK(dram_bytes(3e6, 10'000'000) == Approx(3.2e6));
  CHECK(dram_bytes(0.8e6, 10'000'000) == Approx(6.4e6));
  // One sector of each half line: the other is read and written too, within the buffer.
  counts.counters.write_halves[0] = 1e5;
  CHECK(dram_bytes(0.8e6, 10'000'000) == Approx(12.8e6));
  CHECK(dram_bytes(0.8e6, 4'000'000) == Approx(8e6));
}

TEST_CASE("A small output of an earlier launch is read from the L2 cache") {
  LaunchCounts writes = Launch(10, 4);
  const LaunchCounts reads = ReadsOwn(1);
  const auto second_dram_bytes = [&](double written) {
    writes.counters.write_new[0] = written / kSector;
    writes.counters.write_bytes[0] = written;
    const std::vector<LaunchCounts> launches = {writes, reads};
    return Estimate(RoundGpu(), OwnBuffer(), launches, {})[1].dram_bytes;
  };
  CHECK(second_dram_bytes(0.4e6) == 0);
  CHECK(second_dram_bytes(0.6e6) == Approx(2e6));
}

TEST_CASE("Spilled registers are written and read as often as an instruction runs") {
  LaunchCounts counts = Launch(10, 4);
  counts.static_instructions = 100;
  counts.counters.instructions = 40 * 100;
  counts.local_bytes = 8;
  // 8 of the 24 bytes are in the PTX, and each of 40 warps spills 4 registers.
  LaunchEstimate estimate = EstimateOne(RoundGpu(), counts, {.stack_bytes = 24});
  CHECK(NsOf(estimate, Resource::kLoadStore) == Approx(2.6 * 2 * 4 * 40 / 10));
  CHECK(estimate.l2_bytes == 0);
  // A loop runs them ten times.
  counts.counters.instructions *= 10;
  estimate = EstimateOne(RoundGpu(), counts, {.stack_bytes = 24});
  CHECK(NsOf(estimate, Resource::kLoadStore) == Approx(2.6 * 2 * 4 * 40));
}

TEST_CASE("Local memory beyond the L1 cache reaches the L2 cache") {
  LaunchCounts counts = Launch(10, 4);
  counts.local_bytes = 3125;  // 400,000 bytes for the 128 threads of a block
  counts.counters.local_lines = 1000;
  counts.counters.local_sectors = 4000;
  const LaunchEstimate estimate = EstimateOne(RoundGpu(), counts, {.stack_bytes = 3125});
  CHECK(estimate.l2_bytes == Approx(4000 * kSector * 0.75));
}

}  // namespace
}  // namespace kernelcast::worker::virtual_gpu
