#include "services/forecaster/core/answer_parser.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <vector>

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

TEST_CASE("Probabilities that do not sum to one are scaled and flagged", "[forecaster][answer]") {
  json answer = GoodAnswer();
  answer["p_minor_speedup"] = 0.3;
  const ParsedAnswer parsed = Parse(answer);
  REQUIRE(parsed.status == ParseStatus::kRenormalized);
  CHECK(parsed.forecast.raw_probability_sum == Approx(0.8));
  CHECK(parsed.forecast.bin_probabilities[4] == Approx(0.375));
}

TEST_CASE("A named bin that contradicts the probabilities is flagged", "[forecaster][answer]") {
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

TEST_CASE("Any other answer is unparsable and has a reason", "[forecaster][answer]") {
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

TEST_CASE("A duplicate key is an error", "[forecaster][answer]") {
  std::string text = GoodAnswer().dump();
  text.insert(1, "\"p_high_speedup\": 0.4, ");
  const ParsedAnswer answer = ParseAnswer(BinScheme::Default(), text);
  CHECK(answer.status == ParseStatus::kUnparsable);
  CHECK(answer.error == "'p_high_speedup' is given twice");
}

TEST_CASE("Implausible sums are unparsable", "[forecaster][answer]") {
  json low = GoodAnswer();
  low["p_minor_speedup"] = 0;
  low["p_significant_speedup"] = 0;
  CHECK(Parse(low).status == ParseStatus::kUnparsable);
  json high = GoodAnswer();
  high["p_extreme_speedup"] = 0.9;
  CHECK(Parse(high).status == ParseStatus::kUnparsable);
}

TEST_CASE("An overlong answer is refused", "[forecaster][answer]") {
  json answer = GoodAnswer();
  answer["reasoning"] = std::string(kMaxAnswerBytes, 'x');
  CHECK(Parse(answer).status == ParseStatus::kUnparsable);
}

TEST_CASE("The probability of failure is read when given", "[forecaster][answer]") {
  json answer = GoodAnswer();
  CHECK_FALSE(Parse(answer).has_failure_probability);
  answer["p_failure"] = 0.25;
  const ParsedAnswer parsed = Parse(answer);
  REQUIRE(parsed.status == ParseStatus::kOk);
  CHECK(parsed.has_failure_probability);
  CHECK(parsed.forecast.failure_probability == 0.25);
  answer["p_failure"] = 1.5;
  CHECK(Parse(answer).fault == AnswerFault::kBadProbability);
}

ParsedAnswer Read(const ModelReply& reply) { return ParseReply(BinScheme::Default(), reply); }

ParsedAnswer ReadText(const std::string& content) {
  ModelReply reply;
  reply.content = content;
  return Read(reply);
}

ParsedAnswer ReadCalls(std::vector<ModelReply::ToolCall> calls, const std::string& content = "") {
  ModelReply reply;
  reply.tool_calls = std::move(calls);
  reply.content = content;
  return Read(reply);
}

ModelReply::ToolCall Submit(const json& arguments) {
  return {std::string(kSubmitToolName), arguments.dump()};
}

ModelReply::ToolCall Defer(const std::string& arguments) {
  return {std::string(kDeferToolName), arguments};
}

TEST_CASE("An answer is read from the tool call and from the text", "[forecaster][answer]") {
  const std::string text = GoodAnswer().dump();
  const auto check = [](const ParsedAnswer& answer) {
    INFO(answer.error);
    REQUIRE(answer.status == ParseStatus::kOk);
    CHECK(answer.fault == AnswerFault::kNone);
    CHECK(answer.forecast.bin_probabilities[4] == Approx(0.5));
    CHECK(answer.forecast.predicted_bin == 5);
    CHECK(answer.forecast.rationale == "fewer passes");
    CHECK(ValidateForecast(answer.forecast).ok());
  };
  check(ReadCalls({Submit(GoodAnswer())}));
  check(ReadCalls({Submit(GoodAnswer()), Submit(GoodAnswer())}));
  check(ReadText(text));
  check(ReadText("  \n" + text + "\n"));
  check(ReadText("I think {so}.\n```json\n" + GoodAnswer().dump(2) + "\n```\nThat is all."));
  check(ReadText("<think>{\"p_high_speedup\": 1}</think>\n" + text));
  check(ReadText("{\"name\": \"submit_kernel_runtime_estimate\", \"arguments\": " + text + "}"));
  check(ReadText("{\"name\": \"submit_kernel_runtime_estimate\", \"parameters\": " + text + "}"));
  // The call is unusable but the text is usable.
  check(ReadCalls({{"submit", "{}"}}, text));
  check(ReadCalls({{std::string(kSubmitToolName), "{\"p_high"}}, text));
}

TEST_CASE("A brace in a string does not end an object", "[forecaster][answer]") {
  json answer = GoodAnswer();
  answer["reasoning"] = "it says \"{\" and } and {\"p_high_speedup\": 1}";
  const ParsedAnswer parsed = ReadText("So: " + answer.dump());
  // An answer inside a string has its quotes escaped, so it is not parsed as one.
  REQUIRE(parsed.status == ParseStatus::kOk);
  CHECK(parsed.forecast.predicted_bin == 5);
}

TEST_CASE("Unambiguous numbers are accepted in any notation", "[forecaster][answer]") {
  const ParsedAnswer parsed = ReadText(
      R"({"p_minor_speedup": "0.6", "p_high_speedup": " 2e-1 ", "p_extreme_speedup": null,
          "predicted_bin": "6", "confidence": "high", "p_failure": "0.1"})");
  INFO(parsed.error);
  REQUIRE(parsed.status == ParseStatus::kRenormalized);
  CHECK(parsed.forecast.raw_probability_sum == Approx(0.8));
  CHECK(parsed.forecast.bin_probabilities ==
        std::vector<double>{0, 0, 0, 0, 0.6 / 0.8, 0, 0.2 / 0.8, 0});
  CHECK(parsed.forecast.predicted_bin == 5);
  CHECK(parsed.forecast.argmax_mismatch);
  CHECK(parsed.forecast.failure_probability == Approx(0.1));
  CHECK(ValidateForecast(parsed.forecast).ok());
}

TEST_CASE("Failure may be one of the outcomes that sum to one", "[forecaster][answer]") {
  const ParsedAnswer joint =
      ReadText(R"({"p_failure": 0.7, "p_minor_speedup": 0.2, "p_high_speedup": 0.1})");
  REQUIRE(joint.status == ParseStatus::kOk);
  CHECK(joint.forecast.failure_probability == Approx(0.7));
  CHECK(joint.forecast.raw_probability_sum == Approx(1));
  CHECK(joint.forecast.bin_probabilities[4] == Approx(2.0 / 3));
  // Alone, they are not changed.
  const ParsedAnswer apart = ReadText(R"({"p_failure": 0.3, "p_high_speedup": 0.9})");
  REQUIRE(apart.status == ParseStatus::kRenormalized);
  CHECK(apart.forecast.raw_probability_sum == Approx(0.9));
  CHECK(ReadText(R"({"p_failure": 1, "p_high_speedup": 0})").fault == AnswerFault::kBadSum);
  CHECK(ReadText(R"({"p_failure": 0.1, "p_high_speedup": 0.3})").fault == AnswerFault::kBadSum);
}

TEST_CASE("A predicted bin may be missing, named, or wrong", "[forecaster][answer]") {
  const auto mismatch = [](const std::string& predicted) {
    const ParsedAnswer parsed = ReadText("{\"p_high_speedup\": 1" + predicted + "}");
    REQUIRE(parsed.status == ParseStatus::kOk);
    CHECK(parsed.forecast.predicted_bin == 7);
    return parsed.forecast.argmax_mismatch;
  };
  CHECK_FALSE(mismatch(""));
  CHECK_FALSE(mismatch(", \"predicted_bin\": null"));
  CHECK_FALSE(mismatch(", \"predicted_bin\": \"high_speedup\""));
  CHECK_FALSE(mismatch(", \"predicted_bin\": 7.0"));
  CHECK(mismatch(", \"predicted_bin\": 6"));
  CHECK(mismatch(", \"predicted_bin\": 7.5"));
  CHECK(mismatch(", \"predicted_bin\": 12"));
  CHECK(mismatch(", \"predicted_bin\": [7]"));
}

TEST_CASE("Declining is recognised in every form", "[forecaster][answer]") {
  const auto reason = [](const ParsedAnswer& answer) {
    INFO(answer.error);
    REQUIRE(answer.status == ParseStatus::kDeferred);
    CHECK(answer.fault == AnswerFault::kNone);
    return answer.forecast.rationale;
  };
  CHECK(reason(ReadCalls({Defer(R"({"reason": "atomics"})")})) == "atomics");
  CHECK(reason(ReadCalls({Defer("atomics, {")})) == "atomics, {");
  CHECK(reason(ReadText(R"({"reason": "atomics"})")) == "atomics");
  CHECK(reason(ReadText(R"({"defer": true, "reason": "atomics", "p_high_speedup": 1})")) ==
        "atomics");
  CHECK(reason(ReadText(R"({"name": "defer_to_real_evaluator", "arguments": {}})")).empty());
  CHECK(reason(ReadText("First: " + GoodAnswer().dump() + " No: {\"reason\": \"atomics\"}")) ==
        "atomics");
  // A reason within an answer is not a deferral.
  json answer = GoodAnswer();
  answer["notes"] = {{"reason", "fewer passes"}};
  CHECK(ReadText(answer.dump()).status == ParseStatus::kOk);
  answer["defer"] = false;
  CHECK(ReadText(answer.dump()).status == ParseStatus::kOk);
}

TEST_CASE("Each fault of a reply has a name", "[forecaster][answer]") {
  const auto fault = [](const ParsedAnswer& answer) {
    CHECK(answer.status == ParseStatus::kUnparsable);
    CHECK_FALSE(answer.error.empty());
    return answer.fault;
  };
  json low = GoodAnswer();
  low["p_minor_speedup"] = 0;
  low["p_significant_speedup"] = 0;
  json negative = GoodAnswer();
  negative["p_minor_speedup"] = -0.1;
  CHECK(fault(ReadText("")) == AnswerFault::kEmpty);
  CHECK(fault(ReadText(" \n\t ")) == AnswerFault::kEmpty);
  CHECK(fault(ReadText("It will be faster.")) == AnswerFault::kNoTool);
  CHECK(fault(ReadText("{\"p_high_speedup\": 0.5, ")) == AnswerFault::kNotJson);
  CHECK(fault(ReadText("{\"p_high_speedup\": NaN}")) == AnswerFault::kNotJson);
  CHECK(fault(ReadText("{\"p_high_speedup\": 1e999}")) == AnswerFault::kNotJson);
  CHECK(fault(ReadText("{\"speedup\": 2}")) == AnswerFault::kBadField);
  CHECK(fault(ReadText("{\"p_high_speedup\": null}")) == AnswerFault::kBadField);
  CHECK(fault(ReadText("{\"p_high_speedup\": \"NaN\"}")) == AnswerFault::kBadProbability);
  CHECK(fault(ReadText("{\"p_high_speedup\": \"inf\"}")) == AnswerFault::kBadProbability);
  CHECK(fault(ReadText("{\"p_high_speedup\": \"most\"}")) == AnswerFault::kBadProbability);
  CHECK(fault(ReadText("{\"p_high_speedup\": true}")) == AnswerFault::kBadProbability);
  CHECK(fault(ReadText(negative.dump())) == AnswerFault::kBadProbability);
  CHECK(fault(ReadText(low.dump())) == AnswerFault::kBadSum);
  CHECK(fault(ReadText(std::string(kMaxAnswerBytes + 1, 'x'))) == AnswerFault::kTooLong);
  CHECK(fault(ReadCalls({{"estimate", GoodAnswer().dump()}})) == AnswerFault::kWrongTool);
  CHECK(fault(ReadCalls({Submit(GoodAnswer()), Defer(R"({"reason": "x"})")})) ==
        AnswerFault::kBothTools);
  CHECK(fault(ReadCalls({Submit(GoodAnswer()), Submit(low)})) == AnswerFault::kBothTools);
  // Text does not resolve two contradictory calls.
  CHECK(fault(ReadCalls({Submit(GoodAnswer()), Submit(low)}, GoodAnswer().dump())) ==
        AnswerFault::kBothTools);
}

TEST_CASE("The reasoning channel gives the rationale, and the answer if there is no other",
          "[forecaster][answer]") {
  ModelReply reply;
  reply.reasoning = "Let me see. " + GoodAnswer().dump();
  CHECK(Read(reply).status == ParseStatus::kOk);
  CHECK(Read(reply).repairs == std::set{Repair::kInReasoning});
  // A draft is no answer.
  reply.end = ModelReply::End::kAtLimit;
  CHECK(Read(reply).fault == AnswerFault::kCutOff);
  reply.end = ModelReply::End::kByItself;
  reply.content = "{\"p_high_speedup\": 1}";
  reply.reasoning = std::string(kMaxRationaleBytes, 'x') + "\xff so it is";
  const ParsedAnswer parsed = Read(reply);
  REQUIRE(parsed.status == ParseStatus::kOk);
  CHECK_THAT(parsed.forecast.rationale, Catch::EndsWith("xx\uFFFD so it is"));
  CHECK(parsed.forecast.rationale.size() <= kMaxRationaleBytes);
}

TEST_CASE("A forecast is read from JSON as models write it", "[forecaster][answer]") {
  const auto check = [](const std::string& text, std::set<Repair> repairs) {
    INFO(text);
    const ParsedAnswer parsed = ReadText(text);
    INFO(parsed.error);
    REQUIRE(parsed.status == ParseStatus::kOk);
    CHECK(parsed.forecast.bin_probabilities[6] == Approx(0.75));
    CHECK(parsed.repairs == repairs);
  };
  check(R"({"p_high_speedup": 0.75, "p_minor_speedup": 0.25,})", {Repair::kTrailingComma});
  check("{\"p_high_speedup\": 0.75, // wider loads\n\"p_minor_speedup\": 0.25 /* rest */}",
        {Repair::kComment});
  check("{'p_high_speedup': 0.75, 'p_minor_speedup': 0.25, 'reasoning': 'it\'s wider'}",
        {Repair::kSingleQuotes});
  check("{'p_high_speedup': 0.75, 'p_minor_speedup': 0.25, 'reasoning': 'it's wider'}",
        {Repair::kSingleQuotes});
  check("{p_high_speedup: .75, p_minor_speedup: +0.25}", {Repair::kBareKey, Repair::kNumberForm});
  check(R"({"p_high_speedup": 75%, "p_minor_speedup": 25%})", {Repair::kPercent});
  check(R"({"p_high_speedup": "75 %", "p_minor_speedup": "25%"})", {Repair::kPercent});
  check(R"({"p_high_speedup": 75, "p_minor_speedup": 25, "p_failure": 5})", {Repair::kPercent});
  check("{\"p_high_speedup\": 0.75, \"p_minor_speedup\": 0.25, \"reasoning\": \"two\nlines\"}",
        {Repair::kControlCharacter});
  check(R"({"p_high_speedup": 0.75, "p_minor_speedup": 0.25, "defer": False})",
        {Repair::kPythonWord});
  check(R"("{\"p_high_speedup\": 0.75, \"p_minor_speedup\": 0.25}")", {Repair::kEncodedTwice});
  check(R"({"name": "f", "arguments": "{\"p_high_speedup\": 0.75, \"p_minor_speedup\": 0.25}"})",
        {Repair::kEncodedTwice});
  check(R"({"p_high_speedup": 0.75, "p_minor_speedup": 0.25})", {});
  // More than one meaning.
  CHECK(ReadText(R"({"p_high_speedup": 75, "p_minor_speedup": 0.25})").fault ==
        AnswerFault::kBadProbability);
  CHECK(ReadText(R"({"p_high_speedup": 75, "p_minor_speedup": 25, "p_failure": 0.5})").fault ==
        AnswerFault::kBadProbability);
  CHECK(ReadText(R"({"p_high_speedup": "175%"})").fault == AnswerFault::kBadProbability);
  // Training rewards are for strict JSON.
  CHECK(ParseAnswer(BinScheme::Default(), R"({"p_high_speedup": 1,})").fault ==
        AnswerFault::kNotJson);
}

TEST_CASE("An answer that the endpoint or the model stopped has that fault",
          "[forecaster][answer]") {
  ModelReply reply;
  reply.refusal = "I cannot help with that.";
  CHECK(Read(reply).fault == AnswerFault::kRefused);
  CHECK(Read(reply).error == "the model refuses to answer: I cannot help with that.");
  reply.refusal.clear();
  reply.end = ModelReply::End::kFiltered;
  CHECK(Read(reply).fault == AnswerFault::kContentFilter);
  reply.end = ModelReply::End::kAtLimit;
  reply.content = "{\"p_high_sp";
  CHECK(Read(reply).fault == AnswerFault::kCutOff);
  // It ended in time.
  reply.content = GoodAnswer().dump();
  CHECK(Read(reply).status == ParseStatus::kOk);
}

TEST_CASE("Hostile text is parsed in bounded time", "[forecaster][answer]") {
  CHECK(ReadText(std::string(kMaxAnswerBytes, '{')).status == ParseStatus::kUnparsable);
  CHECK(ReadText(std::string(kMaxAnswerBytes, '[')).status == ParseStatus::kUnparsable);
  std::string nested;
  for (size_t i = 0; nested.size() + 8 < kMaxAnswerBytes; ++i) nested += "{\"a\":";
  CHECK(ReadText(nested).status == ParseStatus::kUnparsable);
}

TEST_CASE("Every parsed forecast is valid", "[forecaster][answer]") {
  // Random probabilities in random notation.
  uint64_t state = 1;
  const auto draw = [&state] {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<double>(state >> 33) / static_cast<double>(uint64_t{1} << 31);
  };
  int forecasts = 0;
  for (int round = 0; round < 2000; ++round) {
    json answer = json::object();
    for (int bin = 1; bin <= 8; ++bin) {
      const double p = draw() * draw() * 0.6;
      const std::string key = "p_" + BinScheme::Default().name(bin);
      if (draw() < 0.1) continue;
      if (draw() < 0.3) {
        answer[key] = std::to_string(p);
      } else {
        answer[key] = p;
      }
    }
    if (draw() < 0.5) answer["predicted_bin"] = static_cast<int>(draw() * 10);
    const ParsedAnswer parsed = ReadText(answer.dump());
    if (parsed.status == ParseStatus::kUnparsable) {
      CHECK((parsed.fault == AnswerFault::kBadSum || parsed.fault == AnswerFault::kBadField));
      continue;
    }
    ++forecasts;
    double sum = 0;
    for (const double p : parsed.forecast.bin_probabilities) sum += p;
    CHECK(sum == Approx(1).margin(1e-12));
    CHECK(ValidateForecast(parsed.forecast).ok());
  }
  CHECK(forecasts > 500);
}

}  // namespace
}  // namespace kernelcast::forecaster
