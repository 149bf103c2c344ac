// The time that each resource takes, and how the times combine.

#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "tests/unit/services/worker/virtual_gpu/estimate/round_gpu.h"

namespace kernelcast::worker::virtual_gpu {
namespace {

using testing::EstimateOne;
using testing::Launch;
using testing::NsOf;
using testing::RoundGpu;

// Ten blocks, one for each multiprocessor, so that the time in ns is a tenth of the cycles.
LaunchCounts TenBlocks() { return Launch(10, 4); }

TEST_CASE("Each unit takes its instructions over its lanes") {
  struct Example {
    Pipe pipe;
    Resource resource;
    double ns;  // of a million instructions of 32 lanes
  };
  for (const Example& row : std::vector<Example>{
           {Pipe::kFloat32, Resource::kFloat32, 25'000},
           {Pipe::kFloat64, Resource::kFloat64, 50'000},
           {Pipe::kHalf, Resource::kHalf, 12'500},
           {Pipe::kConversion, Resource::kConversion, 100'000},
           // A special function is two instructions.
           {Pipe::kSpecial, Resource::kSpecial, 100'000},
           // Half of the additions use the float32 units.
           {Pipe::kInteger, Resource::kInteger, 100'000.0 / 3},
           {Pipe::kShuffle, Resource::kLoadStore, 100'000},
       }) {
    LaunchCounts counts = TenBlocks();
    counts.counters.pipe[static_cast<size_t>(row.pipe)] = 1e6;
    const LaunchEstimate estimate = EstimateOne(RoundGpu(), counts);
    INFO(Name(row.resource));
    CHECK(NsOf(estimate, row.resource) == Approx(row.ns));
    CHECK(estimate.bound == row.resource);
  }
}

TEST_CASE("A multiprocessor issues four instructions per cycle") {
  LaunchCounts counts = TenBlocks();
  counts.counters.issue_slots = 4e6;
  CHECK(NsOf(EstimateOne(RoundGpu(), counts), Resource::kIssue) == Approx(100'000));
  // The busiest multiprocessors run two of 15 blocks, as if 7.5 ran two each.
  counts.blocks = 15;
  CHECK(NsOf(EstimateOne(RoundGpu(), counts), Resource::kIssue) == Approx(1e6 / 7.5));
}

TEST_CASE("Matrix products of warps reach a share of the rate that those of warp groups reach") {
  struct Example {
    std::string name;
    MatrixType type;
    double group_flops;  // of 1e9
    double ns;
  };
  for (const Example& row : std::vector<Example>{
           {"warps", MatrixType::kHalf, 0, 200'000},
           {"groups", MatrixType::kHalf, 1e9, 100'000},
           {"half of each", MatrixType::kHalf, 5e8, 150'000},
           {"another type", MatrixType::kTf32, 1e9, 200'000},
           {"float8 of groups", MatrixType::kFloat8, 1e9, 50'000},
           {"float8 of warps, converted to half", MatrixType::kFloat8, 0, 200'000},
       }) {
    INFO(row.name);
    LaunchCounts counts = TenBlocks();
    counts.counters.matrix_flops[static_cast<size_t>(row.type)] = 1e9;
    counts.counters.matrix_group_flops = row.group_flops;
    CHECK(NsOf(EstimateOne(RoundGpu(), counts), Resource::kTensor) == Approx(row.ns));
  }
  GpuModel gpu = RoundGpu();
  gpu.warp_float8 = true;
  LaunchCounts counts = TenBlocks();
  counts.counters.matrix_flops[static_cast<size_t>(MatrixType::kFloat8)] = 1e9;
  CHECK(NsOf(EstimateOne(gpu, counts), Resource::kTensor) == Approx(100'000));
}

TEST_CASE("The load and store unit takes a cycle for each line and each wavefront") {
  LaunchCounts counts = TenBlocks();
  counts.counters.global_lines = 1e6;
  counts.counters.load_bytes = 2e6 * 128;  // more than the lines hold once
  counts.counters.shared_load_wavefronts = 5e5;
  counts.counters.shared_store_wavefronts = 3e5;
  counts.counters.shared_atomic_cycles = 2e5;
  const LaunchEstimate estimate = EstimateOne(RoundGpu(), counts);
  CHECK(NsOf(estimate, Resource::kLoadStore) == Approx((2e6 + 5e5 + 3e5 + 2e5) / 10));
  CHECK(NsOf(estimate, Resource::kAtomics) == Approx(2e5 / 10));
}

TEST_CASE("Atomics are bound by the L2 cache or by the most contended line") {
  LaunchCounts counts = TenBlocks();
  counts.counters.global_atomics = 4e5;
  CHECK(NsOf(EstimateOne(RoundGpu(), counts), Resource::kAtomics) == Approx(10'000));
  counts.hottest_global_ns = 20'000;  // at 1.98 GHz
  CHECK(NsOf(EstimateOne(RoundGpu(), counts), Resource::kAtomics) == Approx(39'600));
}

TEST_CASE("The times of resources overlap, but not fully") {
  // The resource alone, after 2,200 ns for the launch.
  LaunchCounts counts = TenBlocks();
  counts.counters.pipe[static_cast<size_t>(Pipe::kFloat32)] = 1e6;
  CHECK(EstimateOne(RoundGpu(), counts).total_ns == Approx(2200 + 25'000));
  // Two that take equally long.
  counts.counters.pipe[static_cast<size_t>(Pipe::kHalf)] = 2e6;
  CHECK(EstimateOne(RoundGpu(), counts).total_ns == Approx(2200 + 25'000 * std::pow(2, 0.25)));
  // Waiting overlaps less with DRAM. The first data arrives after 2,000 ns.
  LaunchCounts reads = TenBlocks();
  reads.counters.read_new[0] = 92e6 / 32;
  reads.counters.read_sectors[0] = 92e6 / 32;
  reads.counters.read_halves[0] = 92e6 / 64;
  reads.block_cycles = 100'000 - 300;
  const LaunchEstimate estimate = EstimateOne(RoundGpu(), reads, {}, {{.bytes = 92'000'000}});
  REQUIRE(NsOf(estimate, Resource::kDram) == Approx(100'000));
  const double l2_ns = NsOf(estimate, Resource::kL2);
  const double memory_ns = std::pow(std::pow(1e5, 4) + std::pow(l2_ns, 4), 0.25);
  CHECK(estimate.total_ns == Approx(2200 + 2000 + std::hypot(memory_ns, 1e5)));
}

TEST_CASE("A launch that is not covered has no time") {
  LaunchCounts counts = TenBlocks();
  counts.not_covered = "why";
  counts.counters.issue_slots = 4e6;
  CHECK(EstimateOne(RoundGpu(), counts).total_ns == 0);
}

TEST_CASE("A library's operations reach the peaks, one after the other") {
  // Ten multiprocessors of 128 lanes do 2.56e12 operations per second.
  const KnownAmounts product = {.bytes = 92e6, .operations = 2.56e8, .count = 3};
  const LaunchEstimate estimate = EstimateAmounts(RoundGpu(), {&product, 1});
  CHECK(NsOf(estimate, Resource::kDram) == Approx(3 * 100'000));
  CHECK(NsOf(estimate, Resource::kFloat32) == Approx(3 * 100'000));
  CHECK(estimate.total_ns == Approx(3 * (2200 + 2000 + 100'000 * std::pow(2, 0.25))));
  CHECK(estimate.dram_bytes == Approx(3 * 92e6));

  const std::vector<KnownAmounts> others = {
      {.operations = 1.28e8, .unit = Resource::kFloat64},
      {.operations = 1e9, .unit = Resource::kTensor, .matrix = MatrixType::kFloat8}};
  const LaunchEstimate both = EstimateAmounts(RoundGpu(), others);
  CHECK(NsOf(both, Resource::kFloat64) == Approx(100'000));
  CHECK(NsOf(both, Resource::kTensor) == Approx(50'000));
  CHECK(both.bound == Resource::kFloat64);
  CHECK(both.total_ns == Approx(2 * 2200 + 150'000));
}

}  // namespace
}  // namespace kernelcast::worker::virtual_gpu
