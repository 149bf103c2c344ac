#include "common/base/utf8.h"

#include <catch2/catch.hpp>
#include <random>

namespace kernelcast {

using std::string_literals::operator""s;

TEST_CASE("Valid UTF-8 is accepted unchanged", "[utf8]") {
  for (const std::string& text :
       {""s, "plain"s, "a\0b"s, "\xC3\xA9"s, "\xE2\x82\xAC"s, "\xF0\x9F\x98\x80"s, "\xED\x9F\xBF"s,
        "\xEE\x80\x80"s, "\xF4\x8F\xBF\xBF"s, "\xC2\x80"s, "\xE0\xA0\x80"s, "\xF0\x90\x80\x80"s}) {
    CHECK(IsValidUtf8(text));
    CHECK(SanitizeUtf8(text) == text);
  }
}

TEST_CASE("Overlong forms, surrogates, stray and missing bytes are refused", "[utf8]") {
  for (const std::string& text :
       {"\x80"s, "\xC0\x80"s, "\xC1\xBF"s, "\xE0\x9F\xBF"s, "\xED\xA0\x80"s, "\xF0\x8F\xBF\xBF"s,
        "\xF4\x90\x80\x80"s, "\xF5\x80\x80\x80"s, "\xFF"s, "\xC3"s, "\xE2\x82"s, "\xF0\x9F\x98"s,
        "\xC3 "s}) {
    CHECK_FALSE(IsValidUtf8(text));
    CHECK(IsValidUtf8(SanitizeUtf8(text)));
  }
}

TEST_CASE("Each maximal invalid part becomes one replacement character", "[utf8]") {
  CHECK(SanitizeUtf8("a\xE2\x82z") == "a\xEF\xBF\xBDz");
  CHECK(SanitizeUtf8("\xFF\xFE") == "\xEF\xBF\xBD\xEF\xBF\xBD");
  CHECK(SanitizeUtf8("\xED\xA0\x80") == "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
}

TEST_CASE("Truncation cuts between characters", "[utf8]") {
  const std::string text = "a\xE2\x82\xAC\xC3\xA9";
  CHECK(TruncateUtf8(text, 0) == "");
  CHECK(TruncateUtf8(text, 1) == "a");
  CHECK(TruncateUtf8(text, 2) == "a");
  CHECK(TruncateUtf8(text, 3) == "a");
  CHECK(TruncateUtf8(text, 4) == "a\xE2\x82\xAC");
  CHECK(TruncateUtf8(text, 5) == "a\xE2\x82\xAC");
  CHECK(TruncateUtf8(text, 6) == text);
  CHECK(TruncateUtf8(text, 100) == text);
  CHECK(TruncateUtf8Front(text, 0) == "");
  CHECK(TruncateUtf8Front(text, 1) == "");
  CHECK(TruncateUtf8Front(text, 2) == "\xC3\xA9");
  CHECK(TruncateUtf8Front(text, 4) == "\xC3\xA9");
  CHECK(TruncateUtf8Front(text, 5) == "\xE2\x82\xAC\xC3\xA9");
  CHECK(TruncateUtf8Front(text, 6) == text);
}

TEST_CASE("Sanitizing any bytes gives UTF-8, and truncating it keeps it valid", "[utf8]") {
  std::mt19937_64 random(7);
  for (int round = 0; round < 5'000; ++round) {
    std::string bytes(random() % 24, '\0');
    for (char& byte : bytes) {
      byte = static_cast<char>(random() % 4 == 0 ? 'a' : 0x80 + random() % 0x80);
    }
    const std::string clean = SanitizeUtf8(bytes);
    REQUIRE(IsValidUtf8(clean));
    REQUIRE((clean == bytes) == IsValidUtf8(bytes));
    const size_t limit = random() % 24;
    const std::string_view head = TruncateUtf8(clean, limit);
    const std::string_view tail = TruncateUtf8Front(clean, limit);
    REQUIRE(IsValidUtf8(head));
    REQUIRE(IsValidUtf8(tail));
    REQUIRE(head.size() <= limit);
    REQUIRE(tail.size() <= limit);
    REQUIRE(head.size() + 4 > std::min(limit, clean.size()));
    REQUIRE(TruncateUtf8(bytes, limit).size() <= limit);
  }
}

TEST_CASE("Only a byte order mark at the start is removed, and only once", "[utf8]") {
  for (const auto& [text, without] : {std::pair{"\xEF\xBB\xBFint x;"s, "int x;"s},
                                      {"int x;"s, "int x;"s},
                                      {"\xEF\xBB\xBF\xEF\xBB\xBFx"s, "\xEF\xBB\xBFx"s},
                                      {"x\xEF\xBB\xBF"s, "x\xEF\xBB\xBF"s},
                                      {"\xEF\xBB"s, "\xEF\xBB"s},
                                      {"\xEF\xBB\xBF"s, ""s},
                                      {""s, ""s}}) {
    CHECK(WithoutByteOrderMark(text) == without);
    std::string dropped = text;
    DropByteOrderMark(dropped);
    CHECK(dropped == without);
  }
}

}  // namespace kernelcast
