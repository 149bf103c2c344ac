#include "services/forecaster/core/answer_parser.h"

#include <catch2/catch.hpp>
#include <string>

#include "nlohmann/json.hpp"

namespace kernelcast::forecaster {
namespace {

using nlohmann::json;

json GoodAnswer() {
  return {{"p_severe_slowdown", 0.0},    {"p_significant_slowdown", 0.0},
          {"p_moderate_slowdown", 0.05}, {"p_minor_slowdown", 0.1},
          {"p_minor_speedup", 0.5},      {"p_significant_speedup", 0.25},
          {"p_high_speedup", 0.1},       {"p_extreme_speedup", 0},
          {"predicted_bin", 5},          {"reasoning", "fewer passes"}};
}

ParsedAnswer Parse(const json& answer) { return ParseAnswer(BinScheme::Default(), answer.dump()); }

TEST_CASE("A complete answer is a forecast", "[forecaster][answer]") {
  const ParsedAnswer answer = Parse(GoodAnswer());
  REQUIRE(answer.status == ParseStatus::kOk);
  CHECK(answer.forecast.bin_probabilities[4] == Approx(0.5));
  CHECK(answer.forecast.predicted_bin == 5);
  CHECK_FALSE(answer.forecast.argmax_mismatch);
  CHECK(answer.forecast.rationale == "fewer passes");
  CHECK(answer.forecast.raw_probability_sum == Approx(1));
  CHECK(answer.forecast.expected_log2_speedup > 0);
  CHECK(ValidateForecast(answer.forecast).ok());
}

TEST_CASE("Probabilities that do not sum to one are scaled, and said to be",
          "[forecaster][answer]") {
  json answer = GoodAnswer();
  answer["p_minor_speedup"] = 0.3;
  const ParsedAnswer parsed = Parse(answer);
  REQUIRE(parsed.status == ParseStatus::kRenormalized);
  CHECK(parsed.forecast.raw_probability_sum == Approx(0.8));
  CHECK(parsed.forecast.bin_probabilities[4] == Approx(0.375));
}

TEST_CASE("A bin named against the probabilities is flagged", "[forecaster][answer]") {
  json answer = GoodAnswer();
  answer["predicted_bin"] = 6;
  const ParsedAnswer parsed = Parse(answer);
  REQUIRE(parsed.status == ParseStatus::kOk);
  CHECK(parsed.forecast.argmax_mismatch);
  CHECK(parsed.forecast.predicted_bin == 5);
}

TEST_CASE("Declining is neither a forecast nor an error", "[forecaster][answer]") {
  const ParsedAnswer parsed = Parse({{"reason", "cannot tell"}});
  CHECK(parsed.status == ParseStatus::kDeferred);
  CHECK(parsed.forecast.rationale == "cannot tell");
}

TEST_CASE("Anything else is unparsable, with the reason", "[forecaster][answer]") {
  const auto error = [](const std::string& text) {
    const ParsedAnswer answer = ParseAnswer(BinScheme::Default(), text);
    CHECK(answer.status == ParseStatus::kUnparsable);
    return answer.error;
  };
  const auto with = [](const std::string& key, json value) {
    json answer = GoodAnswer();
    answer[key] = std::move(value);
    return answer.dump();
  };
  json missing = GoodAnswer();
  missing.erase("p_high_speedup");
  json no_bin = GoodAnswer();
  no_bin.erase("predicted_bin");

  CHECK(error("") == "not JSON");
  CHECK(error("```json\n" + GoodAnswer().dump() + "\n```") == "not JSON");
  CHECK(error(GoodAnswer().dump() + " done") == "not JSON");
  CHECK(error("[1, 2]") == "not an object");
  CHECK(error(missing.dump()) == "'p_high_speedup' is missing");
  CHECK(error(no_bin.dump()) == "'predicted_bin' is missing");
  CHECK(error(with("p_high_speedup", "0.1")) == "'p_high_speedup' is not a number");
  CHECK(error(with("p_high_speedup", -0.1)) == "'p_high_speedup' is not in [0, 1]");
  CHECK(error(with("predicted_bin", 5.0)) == "'predicted_bin' is not an integer");
  CHECK(error(with("predicted_bin", 9)) == "'predicted_bin' is not in [1, 8]");
  CHECK(error(with("reasoning", 3)) == "'reasoning' is not a string");
  CHECK(error(with("confidence", 3)) == "'confidence' is not a known key");
  CHECK(error(with("p_fast", 0)) == "'p_fast' is not a known key");
}

TEST_CASE("A key given twice is an error", "[forecaster][answer]") {
  std::string text = GoodAnswer().dump();
  text.insert(1, "\"p_high_speedup\": 0.4, ");
  const ParsedAnswer answer = ParseAnswer(BinScheme::Default(), text);
  CHECK(answer.status == ParseStatus::kUnparsable);
  CHECK(answer.error == "'p_high_speedup' is given twice");
}

TEST_CASE("Sums beyond belief are unparsable", "[forecaster][answer]") {
  json low = GoodAnswer();
  low["p_minor_speedup"] = 0;
  low["p_significant_speedup"] = 0;
  CHECK(Parse(low).status == ParseStatus::kUnparsable);
  json high = GoodAnswer();
  high["p_extreme_speedup"] = 0.9;
  CHECK(Parse(high).status == ParseStatus::kUnparsable);
}

TEST_CASE("An answer of unreasonable length is refused", "[forecaster][answer]") {
  json answer = GoodAnswer();
  answer["reasoning"] = std::string(kMaxAnswerBytes, 'x');
  CHECK(Parse(answer).status == ParseStatus::kUnparsable);
}

}  // namespace
}  // namespace kernelcast::forecaster
