#include "common/config/number_flags.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <vector>

namespace kernelcast {
namespace {

// The parser's objection to `--flag TEXT`; empty: none.
template <class Number>
std::string Refusal(const std::string& text, const CLI::Validator& validator, Number& value) {
  CLI::App app;
  app.add_option("--flag", value)->check(validator);
  std::vector<std::string> arguments = {"--flag=" + text};
  try {
    app.parse(arguments);
  } catch (const CLI::ParseError& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("A flag that is a number takes finite ones within its range", "[config]") {
  double value = -1;
  for (const char* text : {"0", "0.5", "1", "1e-3", "-0"}) {
    INFO(text);
    CHECK(Refusal(text, NumberFrom(0, 1), value).empty());
    CHECK((value >= 0 && value <= 1));
  }
  for (const char* text : {"nan", "NaN", "-nan", "inf", "-inf", "infinity", "1e999", "-1e999",
                           "1.1", "-1", "", "one", "1x", "1e308*10"}) {
    INFO(text);
    CHECK_FALSE(Refusal(text, NumberFrom(0, 1), value).empty());
  }
  CHECK(Refusal("nan", NumberFrom(0, 3600), value) ==
        "--flag: 'nan' is not a number from 0 to 3600");
  CHECK(Refusal("1e999", NumberFrom(0), value) == "--flag: '1e999' is not a number from 0 on");
}

TEST_CASE("A flag that is a whole number neither wraps nor saturates", "[config]") {
  uint64_t value = 0;
  CHECK(Refusal("18446744073709551615", WholeNumberFrom(0), value).empty());
  CHECK(value == UINT64_MAX);
  for (const char* text :
       {"-1", "-18446744073709551615", "18446744073709551616", "99999999999999999999999", "1e3",
        "1.0", "nan", "inf", "0x10", "010", " 1", ""}) {
    INFO(text);
    CHECK_FALSE(Refusal(text, WholeNumberFrom(0), value).empty());
  }
  CHECK(Refusal("-1", WholeNumberFrom(0), value) == "--flag: '-1' is not a whole number from 0 on");
  int narrow = 0;
  CHECK(Refusal("257", WholeNumberFrom(1, 256), narrow) ==
        "--flag: '257' is not a whole number from 1 to 256");
}

}  // namespace
}  // namespace kernelcast
