#include "common/domain/expression.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <thread>
#include <vector>

namespace kernelcast {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::Equals;

const std::vector<std::string> kNames = {"rows", "cols"};

std::string ParseError(std::string_view text) {
  const absl::StatusOr<Expression> parsed = Expression::Parse(text, kNames);
  REQUIRE_FALSE(parsed.ok());
  CHECK(parsed.status().code() == absl::StatusCode::kInvalidArgument);
  return std::string(parsed.status().message());
}

double Value(std::string_view text, double rows = 7, double cols = 3) {
  const absl::StatusOr<Expression> parsed = Expression::Parse(text, kNames);
  INFO(text << ": " << parsed.status());
  REQUIRE(parsed.ok());
  const absl::StatusOr<double> value = parsed->Evaluate({{"rows", rows}, {"cols", cols}});
  INFO(value.status());
  REQUIRE(value.ok());
  return *value;
}

TEST_CASE("Expressions are evaluated", "[expression]") {
  CHECK(Value("1") == 1);
  CHECK(Value("rows*cols") == 21);
  CHECK(Value("5*rows*cols + 1e3") == 1105);
  CHECK(Value("rows / 2") == 3.5);
  CHECK(Value("(rows - cols) * -2") == -8);
  CHECK(Value("min(rows, cols, 5)") == 3);
  CHECK(Value("max(rows, cols)") == 7);
  CHECK(Value("floor(rows / 2)") == 3);
  CHECK(Value("floor(-0.5)") == -1);
  CHECK(Value("ceil(rows / 2)") == 4);
  CHECK(Value("ceildiv(rows, cols)") == 3);
  CHECK(Value("ceildiv(6, cols)") == 2);
  CHECK(Value("mod(rows, cols)") == 1);
  CHECK(Value("mod(-1, 4)") == 3);
  CHECK(Value("next_power_of_2(1)") == 1);
  CHECK(Value("next_power_of_2(64)") == 64);
  CHECK(Value("next_power_of_2(65)") == 128);
  CHECK(Value("next_power_of_2(0)") == 1);
  CHECK(Value("rows > cols ? 10 : 20") == 10);
  CHECK(Value("rows <= cols ? 10 : 20") == 20);
  CHECK(Value("rows != 7 || cols == 3") == 1);
  CHECK(Value("rows >= 7 && cols < 3") == 0);
  CHECK(Value("2^10") == 1024);
  CHECK(Value("2*2^0.5") == Approx(2 * std::sqrt(2)));
}

TEST_CASE("A syntax error is reported with its position", "[expression]") {
  CHECK_THAT(ParseError("rows +"), Equals("expression 'rows +', character 7: "
                                          "Unexpected end of expression"));
  CHECK_THAT(ParseError("rows * * cols"), Contains("character 8"));
  CHECK_THAT(ParseError("(rows"), Contains("Missing parenthesis"));
  CHECK_THAT(ParseError(""), Contains("empty"));
  CHECK_THAT(ParseError("   "), Contains("empty"));
  CHECK_THAT(ParseError("2rows"), Contains("Unexpected"));
  CHECK_THAT(ParseError("rows cols"), Contains("Unexpected"));
  CHECK_THAT(ParseError("rows ? 1"), Contains("else"));
  CHECK_THAT(ParseError("min()"), Contains("Too few"));
  CHECK_THAT(ParseError("0x10"), Contains("unknown name 'x10'"));
}

TEST_CASE("Unknown names are reported with the known ones", "[expression]") {
  CHECK_THAT(ParseError("rows * depth"),
             Equals("expression 'rows * depth', character 8: unknown name 'depth'; known names are "
                    "rows, cols"));
  CHECK_THAT(std::string(Expression::Parse("n", {}).status().message()),
             Contains("known names are none"));
}

TEST_CASE("Non-arithmetic input is refused", "[expression]") {
  CHECK_THAT(ParseError("rows = 5"), Contains("write '=='"));
  CHECK_THAT(ParseError("rows === 5"), Contains("character"));
  CHECK_THAT(ParseError("rows, cols"), Contains("several results"));
  CHECK_THAT(ParseError("\"text\""), Contains("is not part of an expression"));
  CHECK_THAT(ParseError("rows; cols"), Contains("is not part of an expression"));
  CHECK_THAT(ParseError(std::string("rows\0", 5)), Contains("is not part of an expression"));
  CHECK_THAT(ParseError("r\xff"), Contains("character"));
}

TEST_CASE("An expression is limited to one kibibyte", "[expression]") {
  std::string text = "1";
  while (text.size() < 1023) text += "+1";
  CHECK(Value(text) == 512);
  CHECK_THAT(ParseError(text + "+1"), Contains("at most 1024"));
}

TEST_CASE("Deep nesting neither crashes nor hangs", "[expression]") {
  CHECK(Value(std::string(500, '(') + "1" + std::string(500, ')')) == 1);
  CHECK_FALSE(Expression::Parse(std::string(1000, '('), kNames).ok());
  CHECK_FALSE(Expression::Parse(std::string(1000, '?'), kNames).ok());
  std::string nested;
  for (int i = 0; i < 100; ++i) nested += "rows ? ";
  for (int i = 0; i < 100; ++i) nested += i == 0 ? "1" : " : 2";
  CHECK_FALSE(Expression::Parse(nested, kNames).ok());
}

TEST_CASE("Results must be finite", "[expression]") {
  for (const char* text : {"1 / (rows - 7)", "mod(rows, 0)", "ceildiv(1, 0)", "log(0 - rows)",
                           "10^(rows * 1000)", "0 / (cols - 3)"}) {
    CAPTURE(text);
    const absl::StatusOr<Expression> parsed = Expression::Parse(text, kNames);
    REQUIRE(parsed.ok());
    const absl::StatusOr<double> value = parsed->Evaluate({{"rows", 7}, {"cols", 3}});
    CHECK(value.status().code() == absl::StatusCode::kInvalidArgument);
  }
}

TEST_CASE("Only names that occur need a value", "[expression]") {
  const Expression rows = *Expression::Parse("rows + 1", kNames);
  CHECK(*rows.Evaluate({{"rows", 1}}) == 2);
  const absl::StatusOr<double> missing = rows.Evaluate({{"cols", 1}});
  CHECK(missing.status().code() == absl::StatusCode::kInvalidArgument);
  CHECK_THAT(std::string(missing.status().message()), Contains("'rows' has no value"));
  CHECK(rows.text() == "rows + 1");
}

TEST_CASE("Integers are whole and within bounds", "[expression]") {
  const Expression half = *Expression::Parse("rows / 2", kNames);
  CHECK(*half.EvaluateInteger({{"rows", 8}}, 1, 4) == 4);
  CHECK_THAT(std::string(half.EvaluateInteger({{"rows", 7}}, 1, 4).status().message()),
             Equals("expression 'rows / 2' is 3.5, not a whole number from 1 to 4"));
  CHECK_FALSE(half.EvaluateInteger({{"rows", 10}}, 1, 4).ok());
  CHECK_FALSE(half.EvaluateInteger({{"rows", 0}}, 1, 4).ok());
  CHECK_FALSE(half.EvaluateInteger({{"rows", 1e300}}, INT64_MIN, INT64_MAX).ok());
  CHECK_FALSE(half.EvaluateInteger({{"rows", -1e300}}, INT64_MIN, INT64_MAX).ok());
  CHECK(*half.EvaluateInteger({{"rows", std::ldexp(1.0, 53)}}, 0, INT64_MAX) == int64_t{1} << 52);
}

TEST_CASE("Evaluating a default-constructed expression is an error", "[expression]") {
  CHECK_FALSE(Expression().Evaluate({}).ok());
}

TEST_CASE("Function and constant names are reserved", "[expression]") {
  for (const char* name : {"min", "max", "floor", "ceil", "ceildiv", "mod", "log2", "_pi"}) {
    CHECK(Expression::IsReservedName(name));
  }
  CHECK_FALSE(Expression::IsReservedName("rows"));
}

TEST_CASE("Threads may evaluate one expression concurrently", "[expression]") {
  const Expression expression = *Expression::Parse("rows * cols + mod(rows, 5)", kNames);
  std::vector<int> wrong(4, 0);
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < 2000; ++i) {
          const double expected = i * t + std::fmod(i, 5);
          const absl::StatusOr<double> value = expression.Evaluate({{"rows", i}, {"cols", t}});
          if (!value.ok() || *value != expected) ++wrong[t];
        }
      });
    }
  }
  CHECK(wrong == std::vector<int>(4, 0));
}

TEST_CASE("Expressions beyond a thread's compile cache still evaluate correctly", "[expression]") {
  std::vector<Expression> expressions;
  for (int i = 0; i < 200; ++i) {
    expressions.push_back(*Expression::Parse("rows + " + std::to_string(i), kNames));
  }
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 200; ++i) {
      REQUIRE(*expressions[i].Evaluate({{"rows", round}}) == round + i);
    }
  }
}

}  // namespace
}  // namespace kernelcast
