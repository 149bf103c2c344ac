#include "common/domain/facts.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <set>
#include <string>

namespace kernelcast {
namespace {

using Catch::Contains;

TEST_CASE("Every fact of a schema has a name of its own and a meaning", "[domain]") {
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

TEST_CASE("Facts are as many finite values as their schema names", "[domain]") {
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

}  // namespace
}  // namespace kernelcast
