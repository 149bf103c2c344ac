#include "services/forecaster/llm/recent_answers.h"

#include <catch2/catch.hpp>
#include <string>
#include <variant>

namespace kernelcast::forecaster {
namespace {

ForecastResult ForecastWith(const std::string& rationale) {
  kernelcast::Forecast forecast;
  forecast.rationale = rationale;
  forecast.failure_probability = 0.25;
  return forecast;
}

TEST_CASE("The last answer to a question is remembered without its rationale") {
  RecentAnswers answers;
  CHECK(answers.Find("q") == nullptr);
  answers.Remember("q", Abstention{Abstention::Cause::kModelDeferred, "llm", "unsure"});
  answers.Remember("q", ForecastWith("because"));
  const ForecastResult* const found = answers.Find("q");
  REQUIRE(found != nullptr);
  CHECK(std::get<kernelcast::Forecast>(*found).failure_probability == 0.25);
  CHECK(std::get<kernelcast::Forecast>(*found).rationale.empty());
}

TEST_CASE("Failures to answer are not remembered") {
  RecentAnswers answers;
  answers.Remember("q", Abstention{Abstention::Cause::kEndpointUnavailable, "llm", "down"});
  CHECK(answers.Find("q") == nullptr);
}

TEST_CASE("The oldest answers are forgotten first") {
  RecentAnswers answers;
  for (size_t i = 0; i <= RecentAnswers::kRemembered; ++i) {
    answers.Remember(std::to_string(i), ForecastWith(""));
  }
  CHECK(answers.Find("0") == nullptr);
  CHECK(answers.Find("1") != nullptr);
  CHECK(answers.Find(std::to_string(RecentAnswers::kRemembered)) != nullptr);
}

}  // namespace
}  // namespace kernelcast::forecaster
