// The tables of the documents match the code.

#include <algorithm>
#include <catch2/catch.hpp>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "common/base/file.h"
#include "common/domain/bins.h"
#include "common/domain/facts.h"
#include "services/worker/cpu/admission.h"
#if defined(KERNELCAST_HAS_CUDA)
#include "services/worker/cuda/compiler/admission.h"
#include "services/worker/cuda/compiler/standard_headers.h"
#endif

namespace kernelcast {
namespace {

std::string ReadDocument(const std::string& name) {
  return ReadFile(std::string(KERNELCAST_SOURCE_DIR) + "/docs/" + name).value();
}

TEST_CASE("docs/reference/protocol.md shows every bin scheme as in the code", "[lint]") {
  const std::string document = ReadDocument("reference/protocol.md");
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

TEST_CASE("docs/reference/facts.md lists the facts of every schema in order", "[lint]") {
  const std::string document = ReadDocument("reference/facts.md");
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

TEST_CASE("docs/reference/facts.md lists the kinds of findings", "[lint]") {
  std::string section =
      "### " + std::string(kCudaFindingsSchemaId) + "\n\n| # | kind | meaning |\n|---|---|---|\n";
  for (size_t k = 0; k < kFindingKinds; ++k) {
    const auto kind = static_cast<FindingKind>(k);
    section += "| " + std::to_string(k + 1) + " | " + std::string(FindingName(kind)) + " | " +
               std::string(FindingMeaning(kind)) + " |\n";
  }
  INFO(section);
  CHECK_THAT(ReadDocument("reference/facts.md"), Catch::Contains(section));
}

// The words between "<!-- NAME -->" and "<!-- end -->", without code marks.
std::vector<std::string> ListIn(const std::string& document, const std::string& name) {
  const std::string begin = "<!-- " + name + " -->";
  const size_t from = document.find(begin);
  REQUIRE(from != std::string::npos);
  const size_t to = document.find("<!-- end -->", from);
  REQUIRE(to != std::string::npos);
  std::string text = document.substr(from + begin.size(), to - from - begin.size());
  std::ranges::replace(text, '`', ' ');
  std::istringstream words(text);
  return {std::istream_iterator<std::string>(words), {}};
}

TEST_CASE("docs/reference/problem_format.md lists the allowed flags and headers", "[lint]") {
  const std::string document = ReadDocument("reference/problem_format.md");
  const auto strings = [](auto list) { return std::vector<std::string>(list.begin(), list.end()); };
  CHECK(ListIn(document, "flags of cpu") == strings(worker::AllowedCpuFlags()));
#if defined(KERNELCAST_HAS_CUDA)
  CHECK(ListIn(document, "flags of cuda") == strings(worker::AllowedCudaFlags()));
  std::vector<std::string> headers;
  for (const worker::StandardHeader& header : worker::StandardHeaders()) {
    headers.emplace_back(header.name);
  }
  CHECK(ListIn(document, "headers of cuda") == headers);
#endif
}

}  // namespace
}  // namespace kernelcast
