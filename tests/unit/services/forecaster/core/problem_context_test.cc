#include "services/forecaster/core/problem_context.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <utility>

#include "tests/unit/services/forecaster/planted_problem.h"

namespace kernelcast::forecaster {
namespace {

TEST_CASE("The work is that of the largest bench shape", "[forecaster][problem_context]") {
  const PlantedProblem problem;
  const std::vector<float>& work = problem.context()->work_features.at("cpu");
  REQUIRE(work.size() == std::size(kWorkFeatureNames));
  CHECK(work[0] == 19);  // 2 * 256 * 1024 operations
  CHECK(work[1] == 20);  // 4 * 256 * 1024 bytes
  CHECK(work[2] == -1);
  CHECK(work[3] == 18);  // input elements
  CHECK(work[4] == 8);   // output elements
  CHECK(work[5] == 10);
  CHECK(work[6] == 8);
  CHECK(work[7] == 2);
  CHECK(problem.context()->output_bytes.at("cpu").back() == 4 * 256);
}

TEST_CASE("A problem without work figures has missing work features",
          "[forecaster][problem_context]") {
  Problem problem = PlantedProblem().context()->problem;
  problem.flops.reset();
  const ProblemContext context(problem);
  const std::vector<float>& work = context.work_features.at("cpu");
  CHECK(std::isnan(work[0]));
  CHECK(std::isnan(work[2]));
  CHECK(work[1] == 20);
}

// The planted problem with a device CUDA target that has its own bench shape.
ProblemContext DeviceContext() {
  Problem problem = PlantedProblem().context()->problem;
  ProblemTarget& target = problem.targets["cuda"];
  target.kind = CandidateKind::kDeviceCuda;
  target.reference.source = "kernel";
  target.reference.launches = {{.kernel = "k",
                                .grid = {"8"},
                                .block = {"127"},
                                .shared_memory_bytes = "",
                                .arguments = {},
                                .cluster = {}}};
  target.bench_shapes = problem.bench_shapes;
  for (AxisValues& shape : target.bench_shapes) {
    for (auto& [axis, size] : shape) size *= 4;
  }
  return ProblemContext(std::move(problem));
}

TEST_CASE("The work is that of the target's own bench shapes",
          "[forecaster][problem_context][cuda]") {
  const ProblemContext context = DeviceContext();
  CHECK(context.work_features.at("cuda")[0] == context.work_features.at("cpu")[0] + 4);
  CHECK(context.work_features.at("cuda")[5] == 12);
}

TEST_CASE("Launch features have their worked values", "[forecaster][problem_context][cuda]") {
  const ProblemContext context = DeviceContext();
  CHECK(context.reference_launch_features.at("cuda") ==
        std::vector<float>{1, std::log2(9.0f), std::log2(1017.0f), 7, std::log2(9.0f), 0, 0});

  Candidate candidate;
  candidate.target = "cuda";
  const std::string axis = context.problem.axes[0].name;
  const double size = static_cast<double>(context.problem.bench_shapes[0].at(axis)) * 4;
  candidate.launches = {{.kernel = "a",
                         .grid = {axis, "BLOCKS"},
                         .block = {"32", "4"},
                         .shared_memory_bytes = "1023",
                         .arguments = {},
                         .cluster = {}},
                        {.kernel = "b",
                         .grid = {"1"},
                         .block = {"32"},
                         .shared_memory_bytes = "",
                         .arguments = {},
                         .cluster = {}}};
  candidate.tunables = {{"BLOCKS", "3"}};
  candidate.workspace_bytes = "255";
  const std::vector<float> features = context.LaunchFeatures(candidate);
  REQUIRE(features.size() == std::size(kLaunchFeatureNames));
  CHECK(features[0] == 2);
  CHECK(features[5] == 10);
  CHECK(features[6] == 8);
  CHECK(features[3] == Approx(std::log2(129.0)));
  // Some bench shape of the target is the largest, and this axis has its size there.
  double largest = 0;
  for (const AxisValues& shape : context.problem.targets.at("cuda").bench_shapes) {
    largest = std::max(largest, static_cast<double>(shape.at(axis)));
  }
  CHECK(largest >= size);
  CHECK(features[4] == Approx(std::log2(1 + 3 * largest)));
  CHECK(features[1] == Approx(std::log2(2 + 3 * largest)));
  CHECK(features[2] == Approx(std::log2(1 + 32 + 128 * 3 * largest)));
}

TEST_CASE("Candidates without geometry have no launch features",
          "[forecaster][problem_context][cuda]") {
  const ProblemContext context = DeviceContext();
  const auto all_missing = [&](const Candidate& candidate) {
    const std::vector<float> features = context.LaunchFeatures(candidate);
    return features.size() == std::size(kLaunchFeatureNames) &&
           std::all_of(features.begin(), features.end(), [](float f) { return std::isnan(f); });
  };
  Candidate candidate;
  candidate.target = "cuda";
  CHECK(all_missing(candidate));
  candidate.launches = {{.kernel = "a",
                         .grid = {"0"},
                         .block = {"32"},
                         .shared_memory_bytes = "",
                         .arguments = {},
                         .cluster = {}}};
  CHECK(all_missing(candidate));
  candidate.launches[0].grid = {"1"};
  CHECK_FALSE(all_missing(candidate));
  candidate.workspace_bytes = "-1";
  CHECK(all_missing(candidate));
  candidate.workspace_bytes.clear();
  candidate.target = "h100";
  CHECK(all_missing(candidate));
}

TEST_CASE("A target without a space has no columns", "[forecaster][problem_context]") {
  const PlantedProblem problem;
  CHECK(problem.context()->EncoderFor("cpu").columns() > 0);
  CHECK(problem.context()->EncoderFor("h100").columns() == 0);
}

TEST_CASE("The reference's id is known for each target", "[forecaster][problem_context]") {
  const PlantedProblem problem;
  const auto found = problem.context()->reference_ids.find("cpu");
  REQUIRE(found != problem.context()->reference_ids.end());
  CHECK(found->second == ReferenceCandidate(problem.context()->problem, "cpu")->candidate_id);
}

}  // namespace
}  // namespace kernelcast::forecaster
