#include "common/domain/launch_argument.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <limits>
#include <string>

namespace kernelcast {
namespace {

using Catch::Contains;
using Kind = LaunchArgument::Kind;

LaunchArgument Parsed(const std::string& text) {
  const absl::StatusOr<LaunchArgument> argument = ParseLaunchArgument(text);
  INFO(text << ": " << argument.status());
  REQUIRE(argument.ok());
  return *argument;
}

std::string ErrorOf(const std::string& text) {
  const absl::StatusOr<LaunchArgument> argument = ParseLaunchArgument(text);
  CHECK(argument.status().code() == absl::StatusCode::kInvalidArgument);
  return std::string(argument.status().message());
}

ScalarValue ValueOf(const std::string& text, const Variables& variables = {}) {
  const absl::StatusOr<ScalarValue> value = EvaluateScalar(Parsed(text), variables);
  INFO(text << ": " << value.status());
  REQUIRE(value.ok());
  return *value;
}

TEST_CASE("An identifier names a tensor or an axis", "[launch_argument][cuda]") {
  CHECK(Parsed("x").kind == Kind::kName);
  CHECK(Parsed("x").name == "x");
  CHECK(Parsed("workspace2").kind == Kind::kName);
}

TEST_CASE("The workspace may have an offset", "[launch_argument][cuda]") {
  CHECK(Parsed("workspace").kind == Kind::kWorkspace);
  CHECK(Parsed("workspace").expression.empty());
  for (const char* text : {"workspace+4*rows", "workspace + 4*rows"}) {
    CHECK(Parsed(text).kind == Kind::kWorkspace);
    CHECK(Parsed(text).expression == "4*rows");
  }
  CHECK(ErrorOf("workspace +") == "'workspace +' lacks the offset in bytes after '+'");
}

TEST_CASE("Numbers have the type given by their suffix", "[launch_argument][cuda]") {
  CHECK(Parsed("3:i32").type == ScalarType::kInt32);
  CHECK(std::get<int64_t>(ValueOf("3:i32")) == 3);
  CHECK(std::get<int64_t>(ValueOf("-2147483648:int")) == std::numeric_limits<int32_t>::min());
  CHECK(std::get<int64_t>(ValueOf("9223372036854775807:i64")) ==
        std::numeric_limits<int64_t>::max());
  CHECK(std::get<uint64_t>(ValueOf("18446744073709551615:uint64")) ==
        std::numeric_limits<uint64_t>::max());
  CHECK(std::get<double>(ValueOf("0.5:f32")) == 0.5);
  CHECK(std::get<double>(ValueOf("-1e-5:double")) == -1e-5);
  CHECK(std::get<double>(ValueOf("2:f64")) == 2);
  CHECK(std::get<int64_t>(ValueOf("1:bool")) == 1);
}

TEST_CASE("Expressions are evaluated and converted to the argument's type",
          "[launch_argument][cuda]") {
  const Variables variables = {{"rows", 6}, {"cols", 4}, {"TILE", 8}};
  CHECK(std::get<int64_t>(ValueOf("rows*cols:int", variables)) == 24);
  CHECK(std::get<int64_t>(ValueOf("rows:uint32", variables)) == 6);
  CHECK(std::get<double>(ValueOf("1/cols:float", variables)) == 0.25);
  // The colon of a condition does not start a type.
  CHECK(std::get<int64_t>(ValueOf("rows > 5 ? TILE : 1 : int", variables)) == 8);
  const auto error = [&](const char* text) {
    return std::string(EvaluateScalar(Parsed(text), variables).status().message());
  };
  CHECK(error("rows/cols:int") ==
        "'rows/cols': 1.5 is not a whole number from -2147483648 to 2147483647, which int32 can "
        "hold");
  CHECK_THAT(error("rows - 7:uint32"), Contains("-1 is not a whole number from 0 to 4294967295"));
  CHECK_THAT(error("1e30*1e30:float"), Contains("not a finite number that float32 can hold"));
  CHECK_THAT(error("depth:int"), Contains("unknown name 'depth'; known names are"));
}

TEST_CASE("Every type has a name, a size and a range", "[launch_argument][cuda]") {
  for (const auto& [name, bytes] : {std::pair{"bool", 1},
                                    {"int8", 1},
                                    {"uint8", 1},
                                    {"int16", 2},
                                    {"uint16", 2},
                                    {"int32", 4},
                                    {"uint32", 4},
                                    {"int64", 8},
                                    {"uint64", 8},
                                    {"float16", 2},
                                    {"bfloat16", 2},
                                    {"float32", 4},
                                    {"float64", 8}}) {
    const absl::StatusOr<ScalarType> type = ParseScalarType(name);
    REQUIRE(type.ok());
    CHECK(Name(*type) == name);
    CHECK(SizeBytes(*type) == bytes);
    CHECK(IsFloat(*type) == (std::string(name).find("float") != std::string::npos));
    // The ends of the range are valid, and values beyond are not.
    if (IsFloat(*type)) continue;
    const auto [low, high] = ExactRange(*type);
    CHECK(ConvertScalar(*type, static_cast<double>(low)).ok());
    CHECK(ConvertScalar(*type, static_cast<double>(high)).ok());
    CHECK_FALSE(ConvertScalar(*type, static_cast<double>(low) * 2 - 2).ok());
    CHECK_FALSE(ConvertScalar(*type, static_cast<double>(high) * 2 + 2).ok());
    CHECK_FALSE(ConvertScalar(*type, 0.5).ok());
  }
  CHECK(*ParseScalarType("int") == ScalarType::kInt32);
  CHECK(*ParseScalarType("half") == ScalarType::kFloat16);
  CHECK_THAT(std::string(ParseScalarType("long").status().message()),
             Contains("'long' is not one of bool, int8") && Contains("int or float"));
}

TEST_CASE("An invalid argument is refused with the accepted forms", "[launch_argument][cuda]") {
  CHECK(ErrorOf("rows*cols") ==
        "'rows*cols' is not a tensor, an axis or workspace; an expression needs a type, such as "
        "'rows*cols:int'");
  CHECK(ErrorOf("2147483648:i32") ==
        "'2147483648' is not a whole number from -2147483648 to 2147483647, which int32 can hold");
  CHECK(ErrorOf("9223372036854775808:i64") ==
        "'9223372036854775808' is not a whole number that int64 can hold");
  CHECK(ErrorOf("1.5:i32") ==
        "'1.5' is not a whole number from -2147483648 to 2147483647, which int32 can hold");
  CHECK(ErrorOf("-1:u64") == "'-1' is not a whole number that uint64 can hold");
  CHECK(ErrorOf("1e39:f32") == "'1e39' is not a finite number that float32 can hold");
  CHECK(ErrorOf("70000:half") == "'70000' is not a finite number that float16 can hold");
  CHECK(ErrorOf(":int") == "':int' lacks a value before the ':'");
  CHECK_THAT(ErrorOf("3:long"), Contains("'3:long': the type 'long' is not one of bool, int8"));
  CHECK_THAT(ErrorOf(""), Contains("is not a tensor, an axis or workspace"));
}

}  // namespace
}  // namespace kernelcast
