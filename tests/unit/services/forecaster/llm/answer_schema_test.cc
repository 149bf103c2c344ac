#include "services/forecaster/llm/answer_schema.h"

#include <catch2/catch.hpp>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "services/forecaster/core/answer_parser.h"

namespace kernelcast::forecaster {
namespace {

constexpr AnswerForm kForms[] = {AnswerForm::kPaper, AnswerForm::kExtended};

std::vector<std::string> Keys(const OrderedJson& object) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.push_back(key);
  return keys;
}

TEST_CASE("The paper's tool has the published name and fields", "[forecaster][schema]") {
  const OrderedJson tool = SubmitTool(BinScheme::Default(), AnswerForm::kPaper, true);
  CHECK(tool["type"] == "function");
  CHECK(tool["function"]["name"] == "submit_kernel_runtime_estimate");
  const OrderedJson& parameters = tool["function"]["parameters"];
  const std::vector<std::string> fields = {
      "predicted_bin",     "p_severe_slowdown", "p_significant_slowdown", "p_moderate_slowdown",
      "p_minor_slowdown",  "p_minor_speedup",   "p_significant_speedup",  "p_high_speedup",
      "p_extreme_speedup", "reasoning"};
  CHECK(Keys(parameters["properties"]) == fields);
  CHECK(parameters["required"].get<std::vector<std::string>>() == fields);
  CHECK(parameters["properties"]["predicted_bin"]["enum"].dump() == "[1,2,3,4,5,6,7,8]");

  const OrderedJson defer = DeferTool();
  CHECK(defer["function"]["name"] == "defer_to_real_evaluator");
  CHECK(Keys(defer["function"]["parameters"]["properties"]) == std::vector<std::string>{"reason"});
}

TEST_CASE("The extended form reasons first and can decline when there is no second tool",
          "[forecaster][schema]") {
  const auto fields = [](bool may_defer) {
    return Keys(AnswerSchema(BinScheme::Default(), AnswerForm::kExtended, may_defer)["properties"]);
  };
  CHECK(fields(false).front() == "reasoning");
  CHECK(fields(false)[1] == "p_failure");
  CHECK(fields(false).back() == "predicted_bin");
  CHECK(fields(false).size() == 11);
  CHECK(fields(true)[1] == "defer");
  CHECK(fields(true).size() == 12);
}

TEST_CASE("Schemas are flat, closed, and free of features that strict servers refuse",
          "[forecaster][schema]") {
  const std::set<std::string> allowed = {
      "type",        "properties", "required", "enum",      "additionalProperties",
      "description", "function",   "name",     "parameters"};
  const std::function<void(const OrderedJson&, bool)> check = [&](const OrderedJson& value,
                                                                  bool names) {
    if (!value.is_object()) return;
    for (const auto& [key, inner] : value.items()) {
      INFO(key);
      if (!names) CHECK(allowed.contains(key));
      check(inner, key == "properties");
    }
  };
  for (const BinScheme* scheme : BinScheme::All()) {
    for (const AnswerForm form : kForms) {
      for (const bool may_defer : {false, true}) {
        const OrderedJson schema = AnswerSchema(*scheme, form, may_defer);
        check(schema, false);
        CHECK(schema["additionalProperties"] == false);
        CHECK(schema["required"].size() == schema["properties"].size());
        for (const auto& [name, field] : schema["properties"].items()) {
          CHECK_FALSE(field.contains("properties"));
        }
      }
    }
  }
  check(DeferTool(), false);
}

TEST_CASE("The example is an answer that the strict parser accepts", "[forecaster][schema]") {
  for (const BinScheme* scheme : BinScheme::All()) {
    for (const AnswerForm form : kForms) {
      const std::string example = AnswerExample(*scheme, form, /*may_defer=*/false);
      const ParsedAnswer answer = ParseAnswer(*scheme, example);
      INFO(example << "\n" << answer.error);
      REQUIRE(answer.status == ParseStatus::kOk);
      CHECK_FALSE(answer.forecast.argmax_mismatch);
      CHECK(answer.forecast.raw_probability_sum == Approx(1).margin(1e-9));
      CHECK(answer.forecast.predicted_bin == *scheme->Label(1.2));
      CHECK(answer.has_failure_probability == (form == AnswerForm::kExtended));
      ModelReply reply;
      reply.content = AnswerExample(*scheme, form, /*may_defer=*/true);
      CHECK(ParseReply(*scheme, reply).status == ParseStatus::kOk);
    }
  }
}

TEST_CASE("Each bin's field contains its interval", "[forecaster][schema]") {
  for (const BinScheme* scheme : BinScheme::All()) {
    const OrderedJson schema = AnswerSchema(*scheme, AnswerForm::kPaper, false);
    for (int bin = 1; bin <= scheme->size(); ++bin) {
      const OrderedJson& field = schema["properties"]["p_" + scheme->name(bin)];
      CHECK_THAT(field["description"].get<std::string>(),
                 Catch::Contains(scheme->IntervalText(bin)));
    }
  }
}

TEST_CASE("Forms are looked up by name", "[forecaster][schema]") {
  CHECK(ParseAnswerForm("paper").value() == AnswerForm::kPaper);
  CHECK(ParseAnswerForm("extended").value() == AnswerForm::kExtended);
  CHECK(ParseAnswerForm("short").status().message() ==
        "answer form 'short' is not one of extended, paper");
}

}  // namespace
}  // namespace kernelcast::forecaster
