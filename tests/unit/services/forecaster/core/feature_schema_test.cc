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
      schema->Row(candidate, reference, problem.context()->work_features);
  REQUIRE(row.size() == schema->names().size());
  CHECK(row[0] == Approx(std::log(100.0)));
  CHECK(row[1] == Approx(std::log(10.0)));
  CHECK(row[3] == 0);
  CHECK(row[4] == Approx(-std::log(4.0)));
  CHECK(row[5] == Approx(-std::log(4.0) - std::log(2.0)));
  // 2 * 256 * 1024 operations of the larger bench shape.
  CHECK(row[2 * schema->facts()] == 19);
}

TEST_CASE("The scaled logarithm is odd and grows", "[forecaster][features]") {
  CHECK(SignedLog1p(0) == 0);
  CHECK(SignedLog1p(std::exp(1.0) - 1) == Approx(1));
  CHECK(SignedLog1p(-7.5) == -SignedLog1p(7.5));
  CHECK(SignedLog1p(8) > SignedLog1p(7));
}

}  // namespace
}  // namespace kernelcast::forecaster
