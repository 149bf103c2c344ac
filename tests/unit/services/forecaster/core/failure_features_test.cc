#include "services/forecaster/core/failure_features.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

namespace kernelcast::forecaster {
namespace {

CompileFacts Facts(double blocks, double stores, const std::string& gpu = "NVIDIA H200") {
  const auto set = [](const FactSchema& schema, std::vector<double>& values,
                      const std::string& name, double value) {
    const auto at = std::find(schema.names.begin(), schema.names.end(), name);
    REQUIRE(at != schema.names.end());
    values[static_cast<size_t>(at - schema.names.begin())] = value;
  };
  CompileFacts facts;
  facts.schema = std::string(kCudaPtxSchemaId);
  const FactSchema& schema = **FindFactSchema(kCudaPtxSchemaId);
  facts.values.assign(schema.names.size(), 0);
  set(schema, facts.values, "instructions", 99);
  set(schema, facts.values, "branches", 10);
  LaunchSimulation launch;
  const FactSchema& simulation = **FindSimulationSchema(kCudaSimulationSchemaId);
  launch.values.assign(simulation.names.size(), 0);
  set(simulation, launch.values, "blocks", blocks);
  set(simulation, launch.values, "store_requests_4", stores);
  set(simulation, launch.values, "store_sectors_4", 4);
  set(simulation, launch.values, "store_efficiency", 1);
  facts.simulations = {{std::string(kCudaSimulationSchemaId), gpu, {launch}}};
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

TEST_CASE("Findings of any launch are reported", "[forecaster][failure_features]") {
  CompileFacts facts = Facts(1, 1);
  CHECK_FALSE(HasFindings(facts));
  facts.simulations[0].launches[0].findings.push_back({FindingKind::kSharedRace, 3, 4, "a", 1});
  CHECK(HasFindings(facts));
}

}  // namespace
}  // namespace kernelcast::forecaster
