#include "services/cli/core/yaml_hint.h"

#include <catch2/catch.hpp>

namespace kernelcast::cli {
namespace {

TEST_CASE("Common mistakes in YAML are explained by their line") {
  const std::string text =
      "schema: '2'\n"
      "name: softmax\n"
      "title: Softmax: by rows\n"
      "axes:\n"
      "\trows: {held_out: [1, 2]}\n"
      "cols: {held_out: [1, 2]}\n";
  CHECK(YamlHint(text, 1) == "quotes make it text; write the number without them");
  CHECK(YamlHint(text, 2).empty());
  CHECK(YamlHint(text, 3) == "a text that contains ': ' needs quotes");
  CHECK(YamlHint(text, 4).empty());
  CHECK(YamlHint(text, 5) == "line 5 is indented with a tab; YAML allows blanks only");
  CHECK(YamlHint(text, 6) == "line 5 is indented with a tab; YAML allows blanks only");
  for (const int outside : {-1, 0, 8, 100}) CHECK(YamlHint(text, outside).empty());
  CHECK(YamlHint("a: {b: 1, c: 2}", 1).empty());
  CHECK(YamlHint("a: 'b: c'", 1).empty());
  CHECK(YamlHint("a: \"1.5\"", 1) == "quotes make it text; write the number without them");
  CHECK(YamlHint("a: 'x1'", 1).empty());
  CHECK(YamlHint("a:", 1).empty());
}

TEST_CASE("The line is found in messages about a file") {
  CHECK(LineInMessage("problem.yaml:12: what", "problem.yaml") == 12);
  CHECK(LineInMessage("x/problem.yaml:3: what", "problem.yaml") == 3);
  CHECK(LineInMessage("problem.yaml: what", "problem.yaml") == 0);
  CHECK(LineInMessage("problem.yaml", "problem.yaml") == 0);
  CHECK(LineInMessage("space/cpu.yaml:3: what", "problem.yaml") == 0);
}

}  // namespace
}  // namespace kernelcast::cli
