#include "common/base/strings.h"

#include <catch2/catch.hpp>
#include <string>

namespace kernelcast {
namespace {

TEST_CASE("White space is trimmed at the ends of a text, and nowhere else") {
  CHECK(Trim(" \t\r\n\v\fone  two\n") == "one  two");
  CHECK(TrimEnd("  one\t\r\n") == "  one");
  CHECK(Trim("one") == "one");
  // A zero byte and a no-break space are not white space.
  const std::string other("\0\xc2\xa0", 3);
  CHECK(Trim(other) == other);
  CHECK(TrimEnd(other) == other);
}

TEST_CASE("A text of white space is blank and trims to nothing") {
  for (const char* const text : {"", " ", "\t \r\n"}) {
    CHECK(IsBlank(text));
    CHECK(Trim(text).empty());
    CHECK(TrimEnd(text).empty());
  }
  CHECK_FALSE(IsBlank(" x "));
}

}  // namespace
}  // namespace kernelcast
