#include "services/orchestrator/core/niche.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <initializer_list>
#include <string_view>
#include <utility>
#include <vector>

namespace kernelcast::orchestrator {
namespace {

using Named = std::initializer_list<std::pair<std::string_view, double>>;

std::vector<double> Values(const FactSchema& schema, Named named) {
  std::vector<double> values(schema.names.size(), 0);
  for (const auto& [name, value] : named) {
    const auto found = std::ranges::find(schema.names, name);
    REQUIRE(found != schema.names.end());
    values[static_cast<size_t>(found - schema.names.begin())] = value;
  }
  return values;
}

CompileFacts Facts(std::string_view schema, Named named) {
  return {std::string(schema), Values(**FindFactSchema(schema), named)};
}

TEST_CASE("Niches of device code differ in occupancy, width, tile and launches") {
  const CompileFacts facts = Facts(kCudaPtxSchemaId, {{"launches", 2},
                                                      {"launch_occupancy", 0.5},
                                                      {"launch_block_threads", 256},
                                                      {"load_global_4", 7},
                                                      {"store_global_16", 1}});
  CHECK(NicheOf(facts) == Niche{0, 2, 4, 8, 2});
  CHECK(NicheOf(Facts(kCudaPtxSchemaId, {{"launches", 9}, {"load_global_2", 1}})) ==
        Niche{0, 0, 1, 0, 4});
  CHECK(NicheText(facts) == "2/4 occupancy, 16 B accesses, 256 to 511 threads, 2 launches");
  CHECK(NicheText(Facts(kCudaPtxSchemaId, {{"launches", 9}})) == "at least 4 launches");
}

TEST_CASE("A simulation tells the bound resource of the longest launch") {
  const FactSchema& simulated = **FindSimulationSchema(kCudaSimulationSchemaId);
  CompileFacts facts = Facts(kCudaPtxSchemaId, {{"launches", 2}, {"launch_block_threads", 32}});
  ShapeSimulation& shape = facts.simulations.emplace_back();
  shape.schema = std::string(kCudaSimulationSchemaId);
  shape.launches.push_back(
      {"small", Values(simulated, {{"dram_ns", 5}, {"estimated_ns", 6}, {"block_warps", 1}}), ""});
  shape.launches.push_back(
      {"large",
       Values(simulated,
              {{"dram_ns", 50}, {"issue_ns", 70}, {"estimated_ns", 80}, {"block_warps", 8}}),
       ""});
  shape.launches.push_back({"unknown", {}, "not supported"});
  const Niche niche = NicheOf(facts);
  CHECK(niche.bound == 4);
  CHECK(niche.tile == 8);
  CHECK(NicheText(facts) == "issue, 256 to 511 threads, 2 launches");
}

TEST_CASE("Niches of host code differ in its inner loops, other code has one niche") {
  CHECK(NicheOf(Facts(kCpuAssemblySchemaId, {{"inner_flops_per_byte", 0.5},
                                             {"inner_vector_bytes", 32},
                                             {"inner_largest", 40}})) == Niche{1, 0, 5, 5, 0});
  CHECK(NicheOf(Facts(kCpuAssemblySchemaId, {{"inner_flops_per_byte", 4}})).bound == 2);
  CHECK(
      NicheText(Facts(kCpuAssemblySchemaId, {{"inner_vector_bytes", 32}, {"inner_largest", 40}})) ==
      "memory, 32 B vectors, 32 to 63 instructions in the inner loop");
  CHECK(NicheText(Facts(kCpuAssemblySchemaId, {{"inner_flops_per_byte", 4}})) == "arithmetic");
  CHECK(NicheText({}) == "unknown");
  CHECK(NicheOf({}) == Niche{});
  CHECK(NicheOf({"another/1", {1, 2}}) == Niche{});
}

}  // namespace
}  // namespace kernelcast::orchestrator
