#include "common/domain/text.h"

#include <catch2/catch.hpp>
#include <string>

namespace kernelcast {
namespace {

TEST_CASE("Quoted text is one printable line", "[text]") {
  CHECK(Quoted("rows") == "'rows'");
  CHECK(Quoted("a\nb\x7f") == "'a b '");
  CHECK(Quoted("\xff") == "'\xEF\xBF\xBD'");
  CHECK(Quoted(std::string(100, 'x'), 4) == "'xxxx...'");
  CHECK(Quoted("\xC3\xA9\xC3\xA9", 3) == "'\xC3\xA9...'");
}

TEST_CASE("The nearest known word is suggested only if it is close", "[text]") {
  CHECK(NearestWord("dytpe", {"name", "dtype", "shape"}) == "dtype");
  CHECK(NearestWord("shapes", {"name", "dtype", "shape"}) == "shape");
  CHECK(NearestWord("banana", {"name", "dtype", "shape"}).empty());
  CHECK(NearestWord("", {"a"}) == "a");
  CHECK(NearestWord(std::string(1000, 'a'), {"a"}).empty());
}

TEST_CASE("Numbers are written in short form", "[text]") {
  CHECK(NumberText(0.70710678) == "0.707107");
  CHECK(NumberText(1e-6) == "1e-06");
  CHECK(NumberText(3) == "3");
  CHECK(CommaList({}) == "");
  CHECK(CommaList({"a", "b"}) == "a, b");
  CHECK(WordList({}, "and") == "");
  CHECK(WordList({"a"}, "and") == "a");
  CHECK(WordList({"a", "b"}, "or") == "a or b");
  CHECK(WordList({"a", "b", "c"}, "and") == "a, b and c");
}

TEST_CASE("Character classes contain the documented characters", "[text]") {
  CHECK(IsIdentifier("_a1"));
  CHECK_FALSE(IsIdentifier("1a"));
  CHECK_FALSE(IsIdentifier(""));
  CHECK_FALSE(IsIdentifier("a-b"));
  CHECK(IsLowerName("row_softmax2"));
  CHECK_FALSE(IsLowerName("Row"));
  CHECK(IsDecimalInteger("0"));
  CHECK(IsDecimalInteger("-12"));
  CHECK(IsDecimalInteger("9223372036854775807"));
  CHECK(IsDecimalInteger("-9223372036854775808"));
  CHECK_FALSE(IsDecimalInteger("9223372036854775808"));
  CHECK_FALSE(IsDecimalInteger("08"));
  CHECK_FALSE(IsDecimalInteger("-0"));
  CHECK_FALSE(IsDecimalInteger("+1"));
  CHECK_FALSE(IsDecimalInteger("1.0"));
  CHECK_FALSE(IsDecimalInteger("-"));
  CHECK(IsToken("llm:gpt-oss-20b"));
  CHECK_FALSE(IsToken(":x"));
  CHECK_FALSE(IsToken("a b"));
  CHECK(IsFlagShaped("-O3"));
  CHECK_FALSE(IsFlagShaped("O3"));
  CHECK_FALSE(IsFlagShaped("-"));
  CHECK_FALSE(IsFlagShaped("-D A"));
  CHECK(IsSourceText("int\xC3\xA9"));
  CHECK_FALSE(IsSourceText(std::string("a\0b", 3)));
  CHECK_FALSE(IsSourceText("\xC3"));
}

}  // namespace
}  // namespace kernelcast
