#include "services/forecaster/embedded/training_row.h"

#include <catch2/catch.hpp>
#include <utility>
#include <vector>

#include "services/forecaster/core/feature_schema.h"
#include "services/forecaster/core/simulation_features.h"
#include "tests/unit/services/forecaster/planted_problem.h"

namespace kernelcast::forecaster {
namespace {

TEST_CASE("A candidate with facts has features at every level", "[forecaster][training_row]") {
  const PlantedProblem problem;
  const CandidateFeatures features =
      MakeFeatures(*problem.context(), problem.candidates()[40], problem.Facts(40),
                   problem.ReferenceFacts(), "NVIDIA H200");
  CHECK(features.template_index == 1);
  CHECK(features.tunables.size() == problem.context()->EncoderFor("cpu").columns());
  CHECK(features.facts.size() == problem.Facts(40).values.size());
  CHECK(features.shared.size() == FeatureSchema::ForFacts(kCpuAssemblySchemaId)->names().size());
}

TEST_CASE("Device code features include its launches", "[forecaster][training_row][cuda]") {
  Problem problem = PlantedProblem().context()->problem;
  ProblemTarget& target = problem.targets["cuda"];
  target.kind = CandidateKind::kDeviceCuda;
  target.reference.source = "kernel";
  target.reference.launches = {{.kernel = "k",
                                .grid = {"8"},
                                .block = {"128"},
                                .shared_memory_bytes = "",
                                .arguments = {},
                                .cluster = {}}};
  target.bench_shapes = problem.bench_shapes;
  const ProblemContext context(std::move(problem));
  const Candidate candidate = *ReferenceCandidate(context.problem, "cuda");
  const FeatureSchema& schema = *FeatureSchema::ForFacts(kCudaPtxSchemaId);
  const CompileFacts facts{std::string(kCudaPtxSchemaId), std::vector<double>(schema.facts(), 1)};
  const CandidateFeatures features = MakeFeatures(context, candidate, facts, facts, "NVIDIA H200");
  CHECK(features.facts.size() ==
        schema.facts() + std::size(kLaunchFeatureNames) + SimulationFeatureNames().size());
  CHECK(features.facts[schema.facts()] == 1);
  CHECK(features.shared.size() == schema.names().size());
  CHECK(features.simulation.empty());

  // A reference that takes twice as long.
  const auto simulated = [&](double ns) {
    CompileFacts with = facts;
    const FactSchema& simulation = **FindSimulationSchema(kCudaSimulationSchemaId);
    LaunchSimulation launch;
    launch.values.assign(simulation.names.size(), 0.0);
    launch.values.back() = ns;  // estimated_ns
    with.simulations = {{std::string(kCudaSimulationSchemaId), "NVIDIA H200", {launch}}};
    return with;
  };
  const CandidateFeatures both =
      MakeFeatures(context, candidate, simulated(1000), simulated(2000), "NVIDIA H200");
  REQUIRE(both.simulation.size() == SimulationRowNames().size());
  CHECK(both.simulation[0] == 1);
  // It stores nothing.
  CHECK(both.has_wrong_outputs);
  CHECK_FALSE(features.has_wrong_outputs);
  CHECK(both.facts.size() == features.facts.size());
  CHECK(MakeFeatures(context, candidate, simulated(1000), facts, "NVIDIA H200").simulation.empty());

  // Two shapes, with a simulated speedup of 1 at the first and of 4 at the second.
  Problem weighted = context.problem;
  std::vector<AxisValues>& shapes = weighted.targets["cuda"].bench_shapes;
  shapes.assign(2, weighted.bench_shapes.front());
  weighted.targets["cuda"].bench_weights = {1, 3};
  const auto twice = [&](double second_ns) {
    CompileFacts with = simulated(1000);
    with.simulations.push_back(simulated(second_ns).simulations.front());
    return with;
  };
  CHECK(MakeFeatures(ProblemContext(weighted), candidate, twice(1000), twice(4000), "NVIDIA H200")
            .simulation[0] == 1.5);
}

TEST_CASE("A recorded candidate has the features of its simulation alone",
          "[forecaster][training_row]") {
  const PlantedProblem problem;
  const Candidate& candidate = problem.candidates()[0];
  const CandidateFeatures features =
      MakeFeatures(*problem.context(), candidate, RecordedFacts({1000, 3000}),
                   RecordedFacts({2000}), "NVIDIA H200");
  CHECK(features.is_recorded);
  REQUIRE(features.simulation.size() == SimulationRowNames().size());
  CHECK(features.simulation[0] == -1);
  CHECK(features.facts.size() == SimulationFeatureNames().size());
  CHECK(features.shared.empty());
  CHECK(features.failure.empty());

  CompileFacts not_covered = RecordedFacts({1000});
  not_covered.simulations[0].launches = {{"the candidate", {}, "reads values of a tensor (item)"}};
  for (const auto& [own, reference] : {std::pair{not_covered, RecordedFacts({2000})},
                                       std::pair{RecordedFacts({2000}), not_covered}}) {
    const CandidateFeatures none =
        MakeFeatures(*problem.context(), candidate, own, reference, "NVIDIA H200");
    CHECK_FALSE(none.is_recorded);
    CHECK(none.simulation.empty());
    CHECK(none.facts.empty());
  }
}

TEST_CASE("Device code for a task is compared with the recording of its reference",
          "[forecaster][training_row]") {
  const PlantedProblem problem;
  const Candidate& candidate = problem.candidates()[0];
  CompileFacts device = RecordedFacts({1000});
  device.schema = std::string(kCudaPtxSchemaId);
  const CandidateFeatures features =
      MakeFeatures(*problem.context(), candidate, device, RecordedFacts({4000}), "NVIDIA H200");
  REQUIRE(features.simulation.size() == SimulationRowNames().size());
  CHECK(features.simulation[0] == 2);
  CHECK(features.is_recorded);
  CHECK(features.facts.size() == SimulationFeatureNames().size());
  CHECK_FALSE(features.has_findings);
  device.simulations[0].launches[0].findings = {{FindingKind::kSharedRace, 1, 1, "", 1}};
  CHECK(MakeFeatures(*problem.context(), candidate, device, RecordedFacts({4000}), "NVIDIA H200")
            .has_findings);
  // Where a GPU compiles, nothing is known of the reference.
  CHECK(MakeFeatures(*problem.context(), candidate, device,
                     {std::string(kPythonSourceSchemaId), std::vector<double>(5, 1.0)},
                     "NVIDIA H200")
            .simulation.empty());
}

TEST_CASE("Levels whose facts are missing stay empty", "[forecaster][training_row]") {
  const PlantedProblem problem;
  const Candidate& candidate = problem.candidates()[40];
  const CandidateFeatures bare = MakeFeatures(*problem.context(), candidate, {}, {}, "NVIDIA H200");
  CHECK(bare.facts.empty());
  CHECK(bare.shared.empty());
  CHECK_FALSE(bare.tunables.empty());

  const CandidateFeatures no_reference =
      MakeFeatures(*problem.context(), candidate, problem.Facts(40), {}, "NVIDIA H200");
  CHECK_FALSE(no_reference.facts.empty());
  CHECK(no_reference.shared.empty());

  CompileFacts foreign = problem.Facts(40);
  foreign.schema = "ptx/1";
  CHECK(MakeFeatures(*problem.context(), candidate, foreign, foreign, "NVIDIA H200").facts.empty());
}

}  // namespace
}  // namespace kernelcast::forecaster
