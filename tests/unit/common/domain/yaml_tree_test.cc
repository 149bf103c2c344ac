#include "common/domain/yaml_tree.h"

#include <catch2/catch.hpp>
#include <string>

namespace kernelcast {
namespace {

using Catch::Matchers::Equals;
using Catch::Matchers::StartsWith;

std::string TreeError(const std::string& content) {
  const absl::StatusOr<YamlNode> root = ParseYaml("f.yaml", content);
  REQUIRE_FALSE(root.ok());
  CHECK(root.status().code() == absl::StatusCode::kInvalidArgument);
  return std::string(root.status().message());
}

TEST_CASE("A document becomes a tree whose nodes have line numbers", "[yaml]") {
  const absl::StatusOr<YamlNode> parsed = ParseYaml("f.yaml",
                                                    "# comment\n"
                                                    "a: 1\n"
                                                    "b:\n"
                                                    "  - x\n"
                                                    "  - {c: 'two words', d: [e, f]}\n"
                                                    "g: >\n"
                                                    "  folded\n"
                                                    "  text\n"
                                                    "h:\n"
                                                    "i: ~\n");
  REQUIRE(parsed.ok());
  const YamlNode& root = *parsed;
  CHECK(root.kind == YamlNode::Kind::kMapping);
  CHECK(root.line == 2);
  REQUIRE(root.entries.size() == 5);
  CHECK(root.Find("a")->scalar == "1");
  const YamlNode& list = *root.Find("b");
  REQUIRE(list.items.size() == 2);
  CHECK(list.items[0].line == 4);
  CHECK(list.items[1].line == 5);
  CHECK(list.items[1].Find("c")->scalar == "two words");
  CHECK(list.items[1].Find("d")->items[1].scalar == "f");
  CHECK(root.Find("g")->scalar == "folded text\n");
  CHECK(root.Find("h")->kind == YamlNode::Kind::kNull);
  CHECK(root.Find("h")->line == 9);
  CHECK(root.Find("i")->kind == YamlNode::Kind::kNull);
  CHECK(root.Find("i")->line == 10);
  CHECK(root.entries[4].line == 10);
  CHECK(root.Find("nothing") == nullptr);
}

TEST_CASE("Invalid YAML is refused with its line", "[yaml]") {
  CHECK_THAT(TreeError("a: [1, 2\nb: 3\n"), StartsWith("f.yaml:2: YAML: "));
  CHECK_THAT(TreeError("a: 1\n  b: 2\n"), StartsWith("f.yaml:2: YAML: "));
  CHECK_THAT(TreeError("a: 'open\n"), StartsWith("f.yaml:1: YAML: "));
  CHECK_THAT(TreeError("a: 1\nb: }\n"), StartsWith("f.yaml:2: "));
  CHECK_THAT(TreeError(""), Equals("f.yaml:1: is empty"));
  CHECK_THAT(TreeError("# nothing\n"), Equals("f.yaml:1: is empty"));
}

TEST_CASE("Duplicate keys are refused", "[yaml]") {
  CHECK_THAT(TreeError("a: 1\nb: 2\na: 3\n"), Equals("f.yaml:3: key 'a' occurs twice"));
  CHECK_THAT(TreeError("a: {b: 1,\n b: 2}\n"), Equals("f.yaml:2: key 'b' occurs twice"));
}

TEST_CASE("Anchors, aliases, tags and second documents are refused", "[yaml]") {
  CHECK_THAT(TreeError("a: &x 1\nb: *x\n"), Equals("f.yaml:1: anchors are not allowed; write the "
                                                   "value out"));
  CHECK_THAT(TreeError("a: *x\n"), StartsWith("f.yaml:1: YAML: "));
  CHECK_THAT(TreeError("a: !!python/object x\n"), StartsWith("f.yaml:1: tag 'tag:yaml.org"));
  CHECK_THAT(TreeError("a: !foo [x]\n"), StartsWith("f.yaml:1: tag '!foo'"));
  CHECK_THAT(TreeError("a: 1\n---\nb: 2\n"), Equals("f.yaml:1: holds more than one document"));
  CHECK_THAT(TreeError("? [a]\n: b\n"), Equals("f.yaml:1: a key must be a plain word"));
  CHECK_THAT(TreeError("~: b\n"), Equals("f.yaml:1: a key is missing before ':'"));
}

TEST_CASE("Text that is not UTF-8 is refused with its line", "[yaml]") {
  CHECK_THAT(TreeError("a: 1\nb: \xff\n"), Equals("f.yaml:2: is not UTF-8 text without NUL"));
  CHECK_THAT(TreeError(std::string("a: 1\nb: 2\nc\0: 3\n", 16)),
             Equals("f.yaml:3: is not UTF-8 text without NUL"));
}

TEST_CASE("Depth, size and number of values are bounded", "[yaml]") {
  std::string deep;
  for (int i = 0; i < 17; ++i) deep += "[";
  for (int i = 0; i < 17; ++i) deep += "]";
  CHECK_THAT(TreeError(deep), Equals("f.yaml:1: nested more than 16 levels deep"));
  CHECK_THAT(TreeError(std::string(100'000, '[')), StartsWith("f.yaml:1: "));
  CHECK_THAT(TreeError(std::string(100'000, '{')), StartsWith("f.yaml:1: "));
  std::string block;
  for (int i = 0; i < 400; ++i) block += std::string(i, ' ') + "a:\n";
  CHECK_THAT(TreeError(block), Equals("f.yaml:17: nested more than 16 levels deep"));
  std::string many = "a: [";
  for (int i = 0; i < 110'000; ++i) many += "1,";
  CHECK_THAT(TreeError(many + "1]\n"), Equals("f.yaml:1: more than 100000 values"));
  CHECK_THAT(TreeError(std::string(300'000, 'a')),
             Equals("f.yaml:1: 300000 bytes; at most 262144 are allowed"));
}

TEST_CASE("An alias bomb is refused before it expands", "[yaml]") {
  std::string bomb = "a: &a [x, x]\n";
  for (char c = 'b'; c <= 'z'; ++c) {
    const char before = static_cast<char>(c - 1);
    bomb += std::string(1, c) + ": &" + c + " [*" + before + ", *" + before + "]\n";
  }
  CHECK_THAT(TreeError(bomb), StartsWith("f.yaml:1: anchors are not allowed"));
}

}  // namespace
}  // namespace kernelcast
