#include "common/domain/niche.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kernelcast {
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

TEST_CASE("The bound of a niche has a name") {
  CHECK(BoundName(Facts(kCpuAssemblySchemaId, {{"inner_flops_per_byte", 0.5}})) == "memory");
  CHECK(BoundName(Facts(kCpuAssemblySchemaId, {{"inner_flops_per_byte", 2}})) == "arithmetic");
  CHECK(BoundName(Facts(kCudaPtxSchemaId, {{"launches", 1}})).empty());
  CompileFacts simulated = Facts(kCudaPtxSchemaId, {{"launches", 1}});
  ShapeSimulation& shape = simulated.simulations.emplace_back();
  shape.schema = std::string(kCudaSimulationSchemaId);
  shape.launches.push_back(
      {"k",
       Values(**FindSimulationSchema(kCudaSimulationSchemaId), {{"dram_ns", 1}, {"tensor_ns", 2}}),
       ""});
  CHECK(BoundName(simulated) == "tensor");
}

TEST_CASE("Kernels have traits that their authors choose") {
  const auto value = [](const CompileFacts& facts, std::string_view name) {
    for (const KernelTrait& trait : TraitsOf(facts)) {
      if (trait.name == name) return trait.value;
    }
    return std::string("none");
  };
  const CompileFacts device = Facts(kCudaPtxSchemaId, {{"launches", 2},
                                                       {"launch_block_threads", 256},
                                                       {"load_global_16", 1},
                                                       {"load_shared", 3},
                                                       {"wgmma", 1}});
  CHECK(value(device, "vector bytes") == "16");
  CHECK(value(device, "threads per block") == "256");
  CHECK(value(device, "launches") == "2");
  CHECK(value(device, "shared memory") == "yes");
  CHECK(value(device, "tensor cores") == "yes");
  CHECK(value(device, "global atomics") == "no");
  const CompileFacts host =
      Facts(kCpuAssemblySchemaId, {{"inner_vector_bytes", 64}, {"inner_accumulators", 9}});
  CHECK(value(host, "vector bytes") == "64");
  CHECK(value(host, "accumulators") == "8");
  CHECK(value(host, "streaming stores") == "no");
  CHECK(TraitsOf(CompileFacts()).empty());
}

}  // namespace
}  // namespace kernelcast
