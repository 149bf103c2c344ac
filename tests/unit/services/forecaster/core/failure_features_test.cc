#include "services/forecaster/core/failure_features.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace kernelcast::forecaster {
namespace {

// The value of a name in the order of the schema.
double& ValueOf(const FactSchema& schema, std::vector<double>& values, const std::string& name) {
  const auto at = std::find(schema.names.begin(), schema.names.end(), name);
  REQUIRE(at != schema.names.end());
  return values.at(static_cast<size_t>(at - schema.names.begin()));
}

double& Simulated(CompileFacts& facts, size_t launch, const std::string& name) {
  return ValueOf(**FindSimulationSchema(kCudaSimulationSchemaId),
                 facts.simulations.at(0).launches.at(launch).values, name);
}

CompileFacts Facts(double blocks, double stores, const std::string& gpu = "NVIDIA H200") {
  CompileFacts facts;
  facts.schema = std::string(kCudaPtxSchemaId);
  const FactSchema& schema = **FindFactSchema(kCudaPtxSchemaId);
  facts.values.assign(schema.names.size(), 0);
  ValueOf(schema, facts.values, "instructions") = 99;
  ValueOf(schema, facts.values, "branches") = 10;
  LaunchSimulation launch;
  launch.values.assign((*FindSimulationSchema(kCudaSimulationSchemaId))->names.size(), 0);
  facts.simulations = {{std::string(kCudaSimulationSchemaId), gpu, {launch}}};
  Simulated(facts, 0, "blocks") = blocks;
  Simulated(facts, 0, "sampled_blocks") = blocks;
  Simulated(facts, 0, "store_requests_4") = stores;
  Simulated(facts, 0, "store_sectors_4") = 4;
  Simulated(facts, 0, "store_efficiency") = 1;
  return facts;
}

float Value(const std::vector<float>& row, const std::string& name) {
  const auto names = FailureRowNames();
  const auto at = std::find(names.begin(), names.end(), name);
  REQUIRE(at != names.end());
  REQUIRE(row.size() == names.size());
  return row[static_cast<size_t>(at - names.begin())];
}

TEST_CASE("A candidate that stores half as much as the reference is flagged",
          "[forecaster][failure_features]") {
  const std::vector<float> row = FailureRow(Facts(63, 500), Facts(127, 1000), "NVIDIA H200");
  CHECK(Value(row, "ratio.stored_bytes") == Approx(-1).margin(0.01));
  CHECK(Value(row, "ratio.stored_bytes_absolute") == Approx(1).margin(0.01));
  CHECK(Value(row, "ratio.blocks") == Approx(-1));
  CHECK(Value(row, "share.static.branches") == Approx(0.1));
}

TEST_CASE("Bytes of launches are added, and their shares are weighted",
          "[forecaster][failure_features]") {
  // 50 full requests of 4 sectors, then 200 of which half of each sector is stored.
  CompileFacts facts = Facts(10, 50);
  facts.simulations[0].launches.push_back(Facts(20, 200).simulations[0].launches[0]);
  const std::map<std::string, std::pair<double, double>> of_launches = {
      {"store_efficiency", {1, 0.5}},  {"instructions", {100, 300}},
      {"active_lane_share", {1, 0.5}}, {"branches", {30, 10}},
      {"divergent_share", {0.2, 0.6}}, {"block_warps", {4, 3}},
      {"barriers", {202, 0}}};
  for (const auto& [name, values] : of_launches) {
    Simulated(facts, 0, name) = values.first;
    Simulated(facts, 1, name) = values.second;
  }
  const std::vector<float> row = FailureRow(facts, Facts(30, 150), "NVIDIA H200");
  CHECK(Value(row, "ratio.stored_bytes") == Approx(0).margin(1e-6));
  CHECK(Value(row, "ratio.blocks") == Approx(0).margin(1e-6));
  CHECK(Value(row, "active_lane_share") == Approx(0.625));
  CHECK(Value(row, "divergent_share") == Approx(0.3));
  CHECK(Value(row, "barriers_of_a_warp") == Approx(2));  // 10 * 4 + 20 * 3 warps
}

TEST_CASE("The simulations for the device model are used", "[forecaster][failure_features]") {
  CompileFacts facts = Facts(63, 500, "NVIDIA L40S");
  facts.simulations.push_back(Facts(127, 1000).simulations[0]);
  const CompileFacts reference = Facts(127, 1000);
  CHECK(Value(FailureRow(facts, reference, "NVIDIA H200"), "ratio.stored_bytes") == Approx(0));
  CHECK(Value(FailureRow(facts, reference, "NVIDIA L40S"), "ratio.stored_bytes") < -0.9);
  // For an unknown device the first is used.
  CHECK(Value(FailureRow(facts, reference, "unknown"), "ratio.stored_bytes") < -0.9);
}

TEST_CASE("Without simulations the features that depend on them are missing",
          "[forecaster][failure_features]") {
  CompileFacts facts = Facts(1, 1);
  facts.simulations.clear();
  const std::vector<float> row = FailureRow(facts, Facts(1, 1), "NVIDIA H200");
  CHECK(std::isnan(Value(row, "ratio.stored_bytes")));
  CHECK(Value(row, "share.static.branches") == Approx(0.1));
}

TEST_CASE("A candidate that stores less than its outputs hold leaves some unwritten",
          "[forecaster][failure_features]") {
  // 100 requests of 4 sectors of 32 bytes.
  const CompileFacts facts = Facts(1, 100);
  const std::string gpu = "NVIDIA H200";
  CHECK_FALSE(LeavesOutputsUnwritten(facts, gpu, std::vector<double>{12800}));
  CHECK_FALSE(LeavesOutputsUnwritten(facts, gpu, std::vector<double>{14000}));
  CHECK(LeavesOutputsUnwritten(facts, gpu, std::vector<double>{14300}));
  CHECK_FALSE(LeavesOutputsUnwritten(facts, gpu, {}));

  // At the second of two bench shapes alone.
  CompileFacts two = facts;
  two.simulations.push_back(Facts(1, 10).simulations[0]);
  CHECK(LeavesOutputsUnwritten(two, gpu, std::vector<double>{12800, 12800}));
  CHECK_FALSE(LeavesOutputsUnwritten(two, gpu, std::vector<double>{12800, 1280}));

  // Two launches write half each. A launch that was not simulated may write the rest.
  CompileFacts halves = facts;
  LaunchSimulation& first = halves.simulations[0].launches[0];
  first = Facts(1, 50).simulations[0].launches[0];
  CHECK(LeavesOutputsUnwritten(halves, gpu, std::vector<double>{12800}));
  halves.simulations[0].launches.push_back(LaunchSimulation(first));
  CHECK_FALSE(LeavesOutputsUnwritten(halves, gpu, std::vector<double>{12800}));
  halves.simulations[0].launches[1].values.clear();
  halves.simulations[0].launches[1].not_covered = "bulk copies";
  CHECK_FALSE(LeavesOutputsUnwritten(halves, gpu, std::vector<double>{12800}));
  halves.simulations.clear();
  CHECK_FALSE(LeavesOutputsUnwritten(halves, gpu, std::vector<double>{12800}));
}

TEST_CASE("Sampled counts say nothing about missing stores", "[forecaster][failure_features]") {
  // 3 blocks of 8 warps that store a tenth of the outputs.
  CompileFacts facts = Facts(3, 100);
  Simulated(facts, 0, "block_warps") = 8;
  Simulated(facts, 0, "sampled_blocks") = 3;
  Simulated(facts, 0, "sampled_warps") = 24;
  const std::vector<double> outputs = {128000};
  CHECK(LeavesOutputsUnwritten(facts, "NVIDIA H200", outputs));

  struct Row {
    const char* right;  // a correct kernel that has such counts
    const char* count;
    double value;
  };
  const Row rows[] = {
      {"the first warps of a block store for all", "sampled_warps", 3},
      {"the last warp of a block stores for all", "sampled_warps", 6},
      {"the last block stores for all", "sampled_blocks", 2},
      {"one of many blocks stores for all", "blocks", 300},
      {"a loop stores in its last iteration only", "inferred_share", 0.5},
  };
  for (const Row& row : rows) {
    INFO(row.right);
    CompileFacts sampled = facts;
    Simulated(sampled, 0, row.count) = row.value;
    CHECK_FALSE(LeavesOutputsUnwritten(sampled, "NVIDIA H200", outputs));
    // The other launch of a candidate may be fully executed.
    CompileFacts two = facts;
    two.simulations[0].launches.push_back(sampled.simulations[0].launches[0]);
    CHECK_FALSE(LeavesOutputsUnwritten(two, "NVIDIA H200", outputs));
  }
}

TEST_CASE("Atomics may write what is not stored", "[forecaster][failure_features]") {
  CompileFacts facts = Facts(1, 0);
  CHECK(LeavesOutputsUnwritten(facts, "NVIDIA H200", std::vector<double>{4096}));
  Simulated(facts, 0, "global_atomics") = 1024;
  CHECK_FALSE(LeavesOutputsUnwritten(facts, "NVIDIA H200", std::vector<double>{4096}));
}

TEST_CASE("Findings of any launch are reported", "[forecaster][failure_features]") {
  CompileFacts facts = Facts(1, 1);
  CHECK_FALSE(HasFindings(facts));
  facts.simulations[0].launches[0].findings.push_back({FindingKind::kSharedRace, 3, 4, "a", 1});
  CHECK(HasFindings(facts));
  CHECK_FALSE(HasWrongOutputs(facts));
}

TEST_CASE("Outputs are wrong, agree, or were not compared", "[forecaster][failure_features]") {
  CompileFacts facts = Facts(1, 1);
  ShapeSimulation& simulation = facts.simulations[0];
  simulation.findings_schema = std::string(kCudaFaultsSchemaId);
  CHECK_FALSE(HasAgreedOutputs(facts));
  simulation.findings_schema = std::string(kCudaFindingsSchemaId);
  CHECK(HasAgreedOutputs(facts));
  simulation.not_compared = "clusters";
  CHECK_FALSE(HasAgreedOutputs(facts));
  simulation.not_compared = "";
  for (const FindingKind kind : {FindingKind::kWrongValue, FindingKind::kNotWritten}) {
    simulation.launches[0].findings = {{kind, 0, 0, "y[3]", 1}};
    CHECK(HasWrongOutputs(facts));
    CHECK_FALSE(HasAgreedOutputs(facts));
  }
}

}  // namespace
}  // namespace kernelcast::forecaster
