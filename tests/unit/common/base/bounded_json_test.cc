#include "common/base/bounded_json.h"

#include <array>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/support/deep_json.h"

namespace kernelcast {
namespace {

using Json = nlohmann::ordered_json;

TEST_CASE("JSON is parsed down to the limit of its depth and no deeper", "[base]") {
  for (const char* const opening : {"[", "{\"a\":", "[{\"a\":"}) {
    const int levels_each = opening[0] == '[' && opening[1] == '{' ? 2 : 1;
    for (int levels = levels_each; levels <= 100'000; levels *= 2) {
      INFO(opening << " " << levels);
      const Json parsed =
          ParseBoundedJson<Json>(testing::DeepJson(opening, levels / levels_each, "1"));
      // A scalar at the limit may be as deep as a container.
      CHECK(parsed.is_discarded() == (levels > kMaxJsonDepth));
      if (!parsed.is_discarded()) {
        const Json copy = parsed;
        CHECK(copy.dump() == parsed.dump());
      }
    }
  }
  CHECK(ParseBoundedJson("[[[").is_discarded());
  CHECK(ParseBoundedJson("").is_discarded());
  CHECK(ParseBoundedJson("[1, 2] 3").is_discarded());
  CHECK(ParseBoundedJson("[1e999]").is_discarded());
  CHECK(ParseBoundedJson("{\"[[[[\": \"{{{{\"}").size() == 1);
  CHECK(ParseBoundedJson("[1] // [[[[", /*ignore_comments=*/true).size() == 1);
  CHECK(ParseBoundedJson("[1] // [[[[").is_discarded());
}

TEST_CASE("Unclosed JSON is refused at any depth", "[base]") {
  for (const int levels : {65, 1'000, 100'000}) {
    for (const char* const opening : {"[", "{\"a\":", "[1,[2],{\"a\":"}) {
      std::string text;
      for (int i = 0; i < levels; ++i) text += opening;
      CHECK(ParseBoundedJson(text).is_discarded());
    }
  }
}

TEST_CASE("A string of an object is empty where there is none") {
  const auto object = ParseBoundedJson(R"({"a": "x", "b": 1})");
  CHECK(StringAt(object, "a") == "x");
  CHECK(StringAt(object, "b").empty());
  CHECK(StringAt(object, "c").empty());
  CHECK(StringAt(ParseBoundedJson("[1]"), "a").empty());
  CHECK(StringAt(ParseBoundedJson("{"), "a").empty());
}

TEST_CASE("A number that no type holds is found with its field") {
  for (const auto& [text, field, number] : std::vector<std::array<const char*, 3>>{
           {"1e999", "", "1e999"},
           {"[1, -1e999]", "", "-1e999"},
           {R"({"a": 1, "b": {"c": [2, 1e400]}, "d": 3})", "c", "1e400"},
           {R"({"a": 1e308})", "a", ""}}) {
    INFO(text);
    const JsonNumberError error = FindNumberTooLarge(text);
    CHECK(error.field == field);
    CHECK(error.number == number);
  }
}

}  // namespace
}  // namespace kernelcast
