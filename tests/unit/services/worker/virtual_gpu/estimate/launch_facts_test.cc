#include "services/worker/virtual_gpu/estimate/launch_facts.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <string_view>
#include <vector>

#include "common/domain/facts.h"
#include "tests/unit/services/worker/virtual_gpu/estimate/round_gpu.h"

namespace kernelcast::worker::virtual_gpu {
namespace {

double FactOf(const std::vector<double>& facts, std::string_view name) {
  const auto names = (*FindSimulationSchema(kCudaSimulationSchemaId))->names;
  const auto found = std::find(names.begin(), names.end(), name);
  INFO(name);
  REQUIRE(found != names.end());
  return facts.at(static_cast<size_t>(found - names.begin()));
}

TEST_CASE("Facts of a launch are its counts, shares and times, in the order of the schema") {
  LaunchCounts counts = testing::Launch(10, 4);
  Counters& c = counts.counters;
  c.instructions = 1000;
  c.skipped = 250;
  c.lanes = 24'000;
  c.branches = 50;
  c.divergent_branches = 10;
  c.load_requests[2] = 100;
  c.load_sectors[2] = 800;
  c.load_bytes = 12'800;
  c.shared_load_requests = 10;
  c.shared_load_wavefronts = 40;
  c.shared_load_ideal = 20;
  c.matrix_flops[static_cast<size_t>(MatrixType::kTf32)] = 4000;
  c.matrix_group_flops = 1000;
  LaunchEstimate estimate;
  estimate.blocks_per_multiprocessor = 8;
  estimate.ns[static_cast<size_t>(Resource::kTensor)] = 77;
  estimate.total_ns = 2277;

  const std::vector<double> facts = LaunchFacts(counts, estimate);
  CHECK(facts.size() == (*FindSimulationSchema(kCudaSimulationSchemaId))->names.size());
  CHECK(FactOf(facts, "blocks") == 10);
  CHECK(FactOf(facts, "block_warps") == 4);
  CHECK(FactOf(facts, "resident_blocks") == 8);
  CHECK(FactOf(facts, "inferred_share") == 0.25);
  CHECK(FactOf(facts, "active_lane_share") == 0.75);
  CHECK(FactOf(facts, "divergent_share") == 0.2);
  CHECK(FactOf(facts, "load_requests_4") == 100);
  CHECK(FactOf(facts, "load_sectors_4") == 8);
  CHECK(FactOf(facts, "load_efficiency") == 0.5);
  CHECK(FactOf(facts, "shared_load_wavefronts") == 4);
  CHECK(FactOf(facts, "shared_load_conflicts") == 2);
  CHECK(FactOf(facts, "matrix_operations_tf32") == 4000);
  CHECK(FactOf(facts, "matrix_group_share") == 0.25);
  CHECK(FactOf(facts, "tensor_ns") == 77);
  CHECK(FactOf(facts, "estimated_ns") == 2277);
}

TEST_CASE("Facts of a launch are finite") {
  LaunchCounts counts = testing::Launch(1, 1);
  counts.counters.instructions = std::numeric_limits<double>::infinity();
  LaunchEstimate estimate;
  estimate.total_ns = std::nan("");
  const std::vector<double> facts = LaunchFacts(counts, estimate);
  CHECK(std::ranges::all_of(facts, [](double fact) { return std::isfinite(fact); }));
  // Nothing over nothing is nothing.
  CHECK(FactOf(facts, "load_efficiency") == 0);
  CHECK(FactOf(facts, "estimated_ns") == 0);
}

}  // namespace
}  // namespace kernelcast::worker::virtual_gpu
