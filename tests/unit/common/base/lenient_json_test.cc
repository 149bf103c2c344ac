#include "common/base/lenient_json.h"

#include <catch2/catch.hpp>
#include <set>
#include <string>

#include "tests/support/deep_json.h"

namespace kernelcast {
namespace {

std::string Read(std::string_view text) {
  std::set<Repair> repairs;
  const nlohmann::json json = ParseLenientJson(text, repairs);
  return json.is_discarded() ? "" : json.dump();
}

}  // namespace

TEST_CASE("JSON with one possible meaning is mended", "[json]") {
  const std::pair<const char*, const char*> all[] = {
      {R"({"a": [1, 2,], "b": {},})", R"({"a":[1,2],"b":{}})"},
      {"{\"a\": 1 // one\n, # two\n /* three */ \"b\": 2}", R"({"a":1,"b":2})"},
      {"{'a': 'it\\'s \"b\"'}", R"({"a":"it's \"b\""})"},
      {"{'a': 'it's', 'b': ''}", R"({"a":"it's","b":""})"},
      {"{a_1: True, b: False, c: None}", R"({"a_1":true,"b":false,"c":null})"},
      {"[.5, 5., +1, -.5e-1]", "[0.5,5.0,1,-0.05]"},
      {"[13%, -2.5%]", R"(["13%","-2.5%"])"},
      {"[\"two\nlines\", \"\t\"]", R"(["two\nlines","\t"])"},
      {R"raw(["C:\dir", "\(x\)", "\u00e9"])raw", "[\"C:\\\\dir\",\"\\\\(x\\\\)\",\"\u00e9\"]"},
      {" {\"a\": 1}\n", R"({"a":1})"},
  };
  for (const auto& [text, meant] : all) {
    INFO(text);
    CHECK(Read(text) == meant);
  }
}

TEST_CASE("JSON with several possible meanings is not mended", "[json]") {
  for (const char* text : {"",           "{",         "{,}",          "[1,,2]",  "[1 2]",
                           "{\"a\" 1}",  "{\"a\": }", "{\"a\": 1} x", "NaN",     "[1e999]",
                           "[Infinity]", "[007]",     "[1.2.3]",      "[0x10]",  "['open]",
                           "[\"open",    "[1,",       "{\"a\": 1",    "yes",     "[1%2]",
                           "[.]",        "[-]",       "[1e]",         "/* open", "{1: 2}"}) {
    INFO(text);
    CHECK(Read(text).empty());
  }
  CHECK(Read(testing::DeepJson("[", 100)).empty());
}

TEST_CASE("A mended value ends where it ends, and names its repairs", "[json]") {
  const auto mended = MendJsonValue("{'a': 1,} and so on}");
  REQUIRE(mended.has_value());
  CHECK(mended->end == 9);
  CHECK(mended->strict == R"({"a":1})");
  CHECK(mended->repairs == std::set{Repair::kTrailingComma, Repair::kSingleQuotes});
  std::set<Repair> repairs;
  CHECK(ParseLenientJson(R"({"a": 1})", repairs).is_object());
  CHECK(repairs.empty());
  for (const Repair repair : kRepairs) CHECK(Name(repair) != "other");
}

}  // namespace kernelcast
