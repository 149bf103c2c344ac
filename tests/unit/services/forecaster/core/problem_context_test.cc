#include "services/forecaster/core/problem_context.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "tests/unit/services/forecaster/planted_problem.h"

namespace kernelcast::forecaster {
namespace {

TEST_CASE("The work is that of the largest bench shape", "[forecaster][problem_context]") {
  const PlantedProblem problem;
  const std::vector<float>& work = problem.context()->work_features;
  REQUIRE(work.size() == std::size(kWorkFeatureNames));
  CHECK(work[0] == 19);  // 2 * 256 * 1024 operations
  CHECK(work[1] == 20);  // 4 * 256 * 1024 bytes
  CHECK(work[2] == -1);
  CHECK(work[3] == 18);  // input elements
  CHECK(work[4] == 8);   // output elements
  CHECK(work[5] == 10);
  CHECK(work[6] == 8);
  CHECK(work[7] == 2);
}

TEST_CASE("A problem without figures leaves them missing", "[forecaster][problem_context]") {
  Problem problem = PlantedProblem().context()->problem;
  problem.flops.reset();
  const ProblemContext context(problem);
  CHECK(std::isnan(context.work_features[0]));
  CHECK(std::isnan(context.work_features[2]));
  CHECK(context.work_features[1] == 20);
}

TEST_CASE("A target without a space has no columns", "[forecaster][problem_context]") {
  const PlantedProblem problem;
  CHECK(problem.context()->EncoderFor("cpu").columns() > 0);
  CHECK(problem.context()->EncoderFor("h100").columns() == 0);
}

TEST_CASE("The reference's id is known per target", "[forecaster][problem_context]") {
  const PlantedProblem problem;
  const auto found = problem.context()->reference_ids.find("cpu");
  REQUIRE(found != problem.context()->reference_ids.end());
  CHECK(found->second == ReferenceCandidate(problem.context()->problem, "cpu")->candidate_id);
}

}  // namespace
}  // namespace kernelcast::forecaster
