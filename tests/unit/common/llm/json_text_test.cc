#include "common/llm/json_text.h"

#include <catch2/catch.hpp>

#include "common/base/bounded_json.h"
#include "common/base/utf8.h"
#include "tests/support/deep_json.h"

namespace kernelcast::llm {

TEST_CASE("Invalid UTF-8 and lone surrogates are repaired inside strings", "[llm]") {
  const nlohmann::json bytes = ParseJson("{\"a\":\"x\xFF\xC0y\"}");
  REQUIRE(bytes.is_object());
  CHECK(StringAt(bytes, "a") == "x\xEF\xBF\xBD\xEF\xBF\xBDy");
  const nlohmann::json halves =
      ParseJson(R"({"a":"\ud83d.\ude00.\\ud83d.\ud83d\ude00.\ud83d\u0041"})");
  REQUIRE(halves.is_object());
  CHECK(StringAt(halves, "a") ==
        "\xEF\xBF\xBD.\xEF\xBF\xBD.\\ud83d.\xF0\x9F\x98\x80.\xEF\xBF\xBD"
        "A");
}

TEST_CASE("Invalid JSON stays invalid", "[llm]") {
  for (const char* text : {"", "{", "{\"a\":NaN}", "{\"a\":\"\\ud8\"}", "nope", "{}{}", "\\"}) {
    INFO(text);
    CHECK(ParseJson(text).is_discarded());
  }
  CHECK(StringAt(ParseJson("{\"a\":1}"), "a").empty());
  CHECK(StringAt(ParseJson("[1]"), "a").empty());
}

TEST_CASE("Endpoint answers nested to any depth are refused", "[llm]") {
  for (const int times : {100, 10'000, 100'000}) {
    for (const char* const opening : {"[", "{\"choices\":[", "{\"a\":"}) {
      CHECK(ParseJson(testing::DeepJson(opening, times)).is_discarded());
      CHECK(ParseJson(testing::DeepJson(opening, times, "\"\xFF\"")).is_discarded());
    }
  }
}

TEST_CASE("A message becomes one short line of UTF-8", "[llm]") {
  const std::string line = OneLine("a\nb\x1b[31mc\xFF" + std::string(1000, 'x'), 20);
  CHECK(line.size() <= 20);
  CHECK(line.find('\n') == std::string::npos);
  CHECK(line.find('\x1b') == std::string::npos);
  CHECK(IsValidUtf8(line));
}

}  // namespace kernelcast::llm
