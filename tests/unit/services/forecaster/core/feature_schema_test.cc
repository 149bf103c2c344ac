#include "services/forecaster/core/feature_schema.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <set>

#include "services/forecaster/core/problem_context.h"
#include "tests/unit/services/forecaster/planted_problem.h"

namespace kernelcast::forecaster {
namespace {

TEST_CASE("The cpu features are each fact, its difference and the work", "[forecaster][features]") {
  const FeatureSchema* schema = FeatureSchema::ForFacts(kCpuAssemblySchemaId);
  REQUIRE(schema != nullptr);
  CHECK(schema->id() == "embedded-cpu/1");
  const size_t facts = (*FindFactSchema(kCpuAssemblySchemaId))->names.size();
  CHECK(schema->facts() == facts);
  REQUIRE(schema->names().size() == 2 * facts + 8);
  CHECK(schema->names()[0] == "fact.instructions");
  CHECK(schema->names()[1] == "diff.instructions");
  CHECK(schema->names().back() == "work.axes");
  const std::set<std::string> names(schema->names().begin(), schema->names().end());
  CHECK(names.size() == schema->names().size());
}

TEST_CASE("The cuda features include launches", "[forecaster][features][cuda]") {
  const FeatureSchema* schema = FeatureSchema::ForFacts(kCudaPtxSchemaId);
  REQUIRE(schema != nullptr);
  CHECK(schema->id() == "embedded-cuda/1");
  CHECK(schema->has_launches());
  const size_t facts = (*FindFactSchema(kCudaPtxSchemaId))->names.size();
  CHECK(schema->facts() == facts);
  REQUIRE(schema->names().size() == 2 * facts + 2 * 7 + 8);
  CHECK(schema->names()[2 * facts] == "launch.launches");
  CHECK(schema->names()[2 * facts + 1] == "diff.launch.launches");
  const std::set<std::string> names(schema->names().begin(), schema->names().end());
  CHECK(names.size() == schema->names().size());

  const CompileFacts some{std::string(kCudaPtxSchemaId), std::vector<double>(facts, 3)};
  const std::vector<float> launch = {2, 10, 18, 8, 9, 0, 12};
  const std::vector<float> reference = {1, 10, 19, 8, 9, 0, 0};
  const std::vector<float> row =
      schema->Row(some, some, launch, reference, std::vector<float>(8, 5.0f));
  REQUIRE(row.size() == schema->names().size());
  CHECK(row[2 * facts] == 2);
  CHECK(row[2 * facts + 1] == 1);
  CHECK(row[2 * facts + 4] == 18);
  CHECK(row[2 * facts + 5] == -1);
  CHECK(row.back() == 5);
}

TEST_CASE("Facts of an unknown schema have no features", "[forecaster][features]") {
  CHECK(FeatureSchema::ForFacts("ptx/1") == nullptr);
  CHECK(FeatureSchema::ForFacts("") == nullptr);
}

TEST_CASE("Features have their worked values", "[forecaster][features]") {
  const PlantedProblem problem;
  const FeatureSchema* schema = FeatureSchema::ForFacts(kCpuAssemblySchemaId);
  CompileFacts reference = problem.ReferenceFacts();
  CompileFacts candidate = reference;
  reference.values[0] = 9;
  candidate.values[0] = 99;
  candidate.values[2] = -3;
  const std::vector<float> row =
      schema->Row(candidate, reference, {}, {}, problem.context()->work_features.at("cpu"));
  REQUIRE(row.size() == schema->names().size());
  CHECK(row[0] == Approx(std::log(100.0)));
  CHECK(row[1] == Approx(std::log(10.0)));
  CHECK(row[3] == 0);
  CHECK(row[4] == Approx(-std::log(4.0)));
  CHECK(row[5] == Approx(-std::log(4.0) - std::log(2.0)));
  // 2 * 256 * 1024 operations of the larger bench shape.
  CHECK(row[2 * schema->facts()] == 19);
}

TEST_CASE("The scaled logarithm is odd and increasing", "[forecaster][features]") {
  CHECK(SignedLog1p(0) == 0);
  CHECK(SignedLog1p(std::exp(1.0) - 1) == Approx(1));
  CHECK(SignedLog1p(-7.5) == -SignedLog1p(7.5));
  CHECK(SignedLog1p(8) > SignedLog1p(7));
}

}  // namespace
}  // namespace kernelcast::forecaster
