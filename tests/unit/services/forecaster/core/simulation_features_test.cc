#include "services/forecaster/core/simulation_features.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <set>
#include <string>

namespace kernelcast::forecaster {
namespace {

size_t FactAt(std::string_view name) {
  const FactSchema& schema = **FindSimulationSchema(kCudaSimulationSchemaId);
  return static_cast<size_t>(std::find(schema.names.begin(), schema.names.end(), name) -
                             schema.names.begin());
}

LaunchSimulation Launch(double estimated_ns, double dram_ns, double waves) {
  LaunchSimulation launch;
  launch.kernel = "k";
  launch.values.assign((*FindSimulationSchema(kCudaSimulationSchemaId))->names.size(), 0.0);
  launch.values[FactAt("estimated_ns")] = estimated_ns;
  launch.values[FactAt("dram_ns")] = dram_ns;
  launch.values[FactAt("waves")] = waves;
  launch.values[FactAt("resident_blocks")] = 8;
  launch.values[FactAt("block_warps")] = 4;
  launch.values[FactAt("load_efficiency")] = 0.5;
  launch.values[FactAt("instructions")] = 1023;
  return launch;
}

CompileFacts Facts(std::vector<std::vector<LaunchSimulation>> shapes) {
  CompileFacts facts;
  facts.schema = kCudaPtxSchemaId;
  for (auto& launches : shapes) {
    facts.simulations.push_back(
        {std::string(kCudaSimulationSchemaId), "NVIDIA H200", std::move(launches)});
  }
  return facts;
}

float Of(const std::vector<float>& features, std::string_view name) {
  const auto names = SimulationFeatureNames();
  const auto at = std::find(names.begin(), names.end(), name);
  REQUIRE(at != names.end());
  return features[static_cast<size_t>(at - names.begin())];
}

TEST_CASE("Simulation features have their worked values", "[forecaster][simulation]") {
  const std::vector<float> one =
      SimulationFeatures(Facts({{Launch(4096, 3072, 2.5)}}), "NVIDIA H200");
  REQUIRE(one.size() == SimulationFeatureNames().size());
  CHECK(one[kSimulatedTimeFeature] == 12);
  CHECK(Of(one, "dram_ns") == Approx(std::log2(0.75 + 0.05)));
  CHECK(Of(one, "tensor_ns") == Approx(std::log2(0.05)));
  CHECK(Of(one, "largest_share") == Approx(std::log2(0.75 + 0.05)));
  CHECK(Of(one, "occupancy") == 0.5);
  CHECK(Of(one, "waves") == Approx(std::log2(2.5)));
  CHECK(Of(one, "tail") == Approx(std::log2(3 / 2.5)));
  CHECK(Of(one, "launches") == 0);
  CHECK(Of(one, "launch_overhead") == Approx(std::log2(1 + 2000.0 / 4096)));
  CHECK(Of(one, "load_efficiency") == 0.5);
  CHECK(Of(one, "instructions") == 10);
}

TEST_CASE("Launches are summed and shapes are averaged", "[forecaster][simulation]") {
  LaunchSimulation second = Launch(1024, 0, 1);
  second.values[FactAt("load_efficiency")] = 1;
  const std::vector<float> two =
      SimulationFeatures(Facts({{Launch(3072, 1024, 1), second}}), "NVIDIA H200");
  CHECK(two[kSimulatedTimeFeature] == 12);
  CHECK(Of(two, "dram_ns") == Approx(std::log2(0.25 + 0.05)));
  CHECK(Of(two, "load_efficiency") == 0.625);  // weighted by time
  CHECK(Of(two, "launches") == 1);
  const std::vector<float> shapes =
      SimulationFeatures(Facts({{Launch(4096, 0, 1)}, {Launch(16384, 0, 1)}}), "NVIDIA H200");
  CHECK(shapes[kSimulatedTimeFeature] == 13);
  const std::vector<double> weights = {0.25, 0.75};
  CHECK(SimulationFeatures(Facts({{Launch(4096, 0, 1)}, {Launch(16384, 0, 1)}}), "NVIDIA H200",
                           weights)[kSimulatedTimeFeature] == 13.5);
}

TEST_CASE("Shares of time are those of the candidate and their change from the reference",
          "[forecaster][simulation]") {
  const std::vector<float> candidate =
      SimulationFeatures(Facts({{Launch(4096, 3072, 1)}}), "NVIDIA H200");
  const std::vector<float> reference =
      SimulationFeatures(Facts({{Launch(8192, 2048, 1)}}), "NVIDIA H200");
  const std::vector<float> shares = ResourceShares(SimulationRow(candidate, reference));
  REQUIRE(shares.size() % 2 == 0);
  const size_t resources = shares.size() / 2;
  CHECK(shares[0] == Approx(0.75));                 // DRAM
  CHECK(shares[1] == Approx(0).margin(1e-6));       // the second-level cache
  CHECK(shares[resources] == Approx(0.75 - 0.25));  // DRAM
  CHECK(shares[resources + 1] == Approx(0).margin(1e-6));
  CHECK(ResourceShares({}).empty());
}

TEST_CASE("Candidates without a simulation have no features", "[forecaster][simulation]") {
  const auto none = [](const CompileFacts& facts) {
    const std::vector<float> features = SimulationFeatures(facts, "NVIDIA H200");
    return features.size() == SimulationFeatureNames().size() &&
           std::all_of(features.begin(), features.end(), [](float f) { return std::isnan(f); });
  };
  CHECK(none(Facts({})));
  CHECK(none(Facts({{}})));
  LaunchSimulation uncovered;
  uncovered.kernel = "k";
  uncovered.not_covered = "calls";
  CHECK(none(Facts({{Launch(4096, 0, 1), uncovered}})));
  CHECK(none(Facts({{Launch(4096, 0, 1)}, {uncovered}})));
  CompileFacts foreign = Facts({{Launch(4096, 0, 1)}});
  foreign.simulations[0].schema = "cuda-sim/2";
  CHECK(none(foreign));
}

TEST_CASE("A row compares candidate and reference", "[forecaster][simulation]") {
  const std::vector<float> candidate =
      SimulationFeatures(Facts({{Launch(1024, 512, 2)}}), "NVIDIA H200");
  const std::vector<float> reference =
      SimulationFeatures(Facts({{Launch(4096, 512, 1)}}), "NVIDIA H200");
  const std::vector<float> row = SimulationRow(candidate, reference);
  const auto names = SimulationRowNames();
  REQUIRE(row.size() == names.size());
  CHECK(std::set<std::string>(names.begin(), names.end()).size() == names.size());
  CHECK(names[0] == "log2_speedup");
  CHECK(row[0] == 2);
  const auto at = [&](const char* name) {
    const auto found = std::find(names.begin(), names.end(), name);
    REQUIRE(found != names.end());
    return row[static_cast<size_t>(found - names.begin())];
  };
  CHECK(at("diff.waves") == 1);
  CHECK(at("sim.waves") == 1);
  CHECK(at("diff.dram_ns") == Approx(std::log2(0.55) - std::log2(0.175)));
  CHECK(at("diff.instructions") == 0);
  CHECK(std::find(names.begin(), names.end(), "sim.instructions") == names.end());
  CHECK(SimulationRow(candidate, SimulationFeatures(Facts({}), "NVIDIA H200")).empty());
  CHECK(SimulationRow(SimulationFeatures(Facts({}), "NVIDIA H200"), reference).empty());
}

}  // namespace
}  // namespace kernelcast::forecaster
