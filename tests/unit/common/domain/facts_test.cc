#include "common/domain/facts.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <set>
#include <string>

namespace kernelcast {
namespace {

using Catch::Contains;

TEST_CASE("Every fact of a schema has a unique name and a meaning", "[domain]") {
  std::set<std::string_view> ids;
  for (const FactSchema& schema : AllFactSchemas()) {
    INFO(std::string(schema.id));
    CHECK(ids.insert(schema.id).second);
    CHECK(schema.names.size() == schema.meanings.size());
    const std::set<std::string_view> names(schema.names.begin(), schema.names.end());
    CHECK(names.size() == schema.names.size());
    for (const std::string_view meaning : schema.meanings) CHECK_FALSE(meaning.empty());
    CHECK(*FindFactSchema(schema.id) == &schema);
  }
  CHECK(ids.contains(kCpuAssemblySchemaId));
  CHECK(ids.contains(kCudaPtxSchemaId));
}

TEST_CASE("The number of facts matches the schema and all are finite", "[domain]") {
  const FactSchema& schema = **FindFactSchema(kCudaPtxSchemaId);
  CompileFacts facts{std::string(kCudaPtxSchemaId), std::vector<double>(schema.names.size(), 1)};
  CHECK(ValidateFacts(facts).ok());

  facts.values[1] = NAN;
  CHECK_THAT(std::string(ValidateFacts(facts).message()),
             Contains("fact registers of schema cuda-ptx/1 is not a finite number"));
  facts.values.pop_back();
  CHECK(absl::IsInvalidArgument(ValidateFacts(facts)));
  facts.schema = "cuda-sass/1";
  CHECK_THAT(std::string(ValidateFacts(facts).message()),
             Contains("no fact schema 'cuda-sass/1'; there is cpu-asm/1, cuda-ptx/1"));
}

TEST_CASE("Findings have a schema, a count and bounded text", "[domain]") {
  const FactSchema& schema = **FindFactSchema(kCudaPtxSchemaId);
  const FactSchema& simulated = **FindSimulationSchema(kCudaSimulationSchemaId);
  CompileFacts facts{std::string(kCudaPtxSchemaId), std::vector<double>(schema.names.size(), 1)};
  LaunchSimulation launch{"k", std::vector<double>(simulated.names.size(), 1), ""};
  launch.findings = {{FindingKind::kSharedRace, 12, 0, "st.shared.f32", 3}};
  facts.simulations = {{std::string(kCudaSimulationSchemaId),
                        "NVIDIA H200",
                        {launch},
                        std::string(kCudaFindingsSchemaId)}};
  CHECK(ValidateFacts(facts).ok());

  CompileFacts unchecked = facts;
  unchecked.simulations[0].findings_schema = "";
  CHECK_THAT(std::string(ValidateFacts(unchecked).message()),
             Contains("findings without a findings schema"));
  unchecked.simulations[0].findings_schema = "cuda-findings/9";
  CHECK_THAT(
      std::string(ValidateFacts(unchecked).message()),
      Contains("no findings schema 'cuda-findings/9'; there is cuda-findings/1, cuda-findings/2"));

  CompileFacts long_text = facts;
  long_text.simulations[0].launches[0].findings[0].detail.assign(kMaxFindingDetail + 1, 'x');
  CHECK(absl::IsInvalidArgument(ValidateFacts(long_text)));
  CompileFacts no_count = facts;
  no_count.simulations[0].launches[0].findings[0].count = 0;
  CHECK(absl::IsInvalidArgument(ValidateFacts(no_count)));
  CompileFacts many = facts;
  many.simulations[0].launches[0].findings.assign(kMaxFindings + 1, launch.findings[0]);
  CHECK(absl::IsInvalidArgument(ValidateFacts(many)));
}

TEST_CASE("Every finding kind has a unique name and meaning", "[domain]") {
  std::set<std::string_view> names;
  for (size_t k = 0; k < kFindingKinds; ++k) {
    CHECK(names.insert(FindingName(static_cast<FindingKind>(k))).second);
    CHECK_FALSE(FindingMeaning(static_cast<FindingKind>(k)).empty());
  }
}

}  // namespace
}  // namespace kernelcast
