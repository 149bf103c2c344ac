// The tables of the documents are those of the code.

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "common/base/file.h"
#include "common/domain/bins.h"
#include "common/domain/facts.h"

namespace kernelcast {
namespace {

std::string ReadDocument(const std::string& name) {
  return ReadFile(std::string(KERNELCAST_SOURCE_DIR) + "/docs/" + name).value();
}

TEST_CASE("docs/protocol.md shows every bin scheme as the code has it", "[lint]") {
  const std::string document = ReadDocument("protocol.md");
  for (const BinScheme* scheme : BinScheme::All()) {
    CHECK_THAT(document, Catch::Contains("`" + scheme->id() + "`"));
    std::string table = "| bin | name | S |\n|---|---|---|\n";
    for (int bin = 1; bin <= scheme->size(); ++bin) {
      table += "| " + std::to_string(bin) + " | " + scheme->name(bin) + " | " +
               scheme->IntervalText(bin) + " |\n";
    }
    CHECK_THAT(document, Catch::Contains(table));
  }
}

TEST_CASE("docs/protocol.md lists the facts of every schema in their order", "[lint]") {
  const std::string document = ReadDocument("protocol.md");
  std::vector<FactSchema> schemas(AllFactSchemas().begin(), AllFactSchemas().end());
  schemas.push_back(**FindSimulationSchema(kCudaSimulationSchemaId));
  for (const FactSchema& schema : schemas) {
    std::string section =
        "### " + std::string(schema.id) + "\n\n| # | fact | meaning |\n|---|---|---|\n";
    for (size_t i = 0; i < schema.names.size(); ++i) {
      section += "| " + std::to_string(i + 1) + " | " + std::string(schema.names[i]) + " | " +
                 std::string(schema.meanings[i]) + " |\n";
    }
    INFO(section);
    CHECK_THAT(document, Catch::Contains(section));
  }
}

}  // namespace
}  // namespace kernelcast
