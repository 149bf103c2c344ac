#include "services/forecaster/llm/request_shape.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <string>

namespace kernelcast::forecaster {
namespace {

using nlohmann::json;

const BinScheme& Scheme() { return BinScheme::Default(); }

TEST_CASE("The top rung requests a strict schema that can decline", "[forecaster][shape]") {
  const llm::ResponseShape shape = ShapeAt(Rung::kJsonSchema, Scheme(), AnswerForm::kExtended);
  CHECK(shape.tools.empty());
  CHECK(shape.tool_choice.empty());
  const json format = json::parse(shape.response_format);
  CHECK(format["type"] == "json_schema");
  CHECK(format["json_schema"]["strict"] == true);
  CHECK(format["json_schema"]["name"] == "submit_kernel_runtime_estimate");
  CHECK(format["json_schema"]["schema"]["properties"].contains("defer"));
}

TEST_CASE("A named tool is the only tool and can decline", "[forecaster][shape]") {
  const llm::ResponseShape shape = ShapeAt(Rung::kToolsNamed, Scheme(), AnswerForm::kExtended);
  CHECK(shape.response_format.empty());
  const json tools = json::parse(shape.tools);
  REQUIRE(tools.size() == 1);
  CHECK(tools[0]["function"]["parameters"]["properties"].contains("defer"));
  CHECK(json::parse(shape.tool_choice) ==
        json({{"type", "function"}, {"function", {{"name", "submit_kernel_runtime_estimate"}}}}));
}

TEST_CASE("The free-choice rung offers both tools", "[forecaster][shape]") {
  const llm::ResponseShape shape = ShapeAt(Rung::kToolsAuto, Scheme(), AnswerForm::kExtended);
  CHECK(shape.response_format.empty());
  CHECK(json::parse(shape.tool_choice) == "auto");
  const json tools = json::parse(shape.tools);
  REQUIRE(tools.size() == 2);
  CHECK(tools[0]["function"]["name"] == "submit_kernel_runtime_estimate");
  CHECK_FALSE(tools[0]["function"]["parameters"]["properties"].contains("defer"));
  CHECK(tools[1]["function"]["name"] == "defer_to_real_evaluator");
}

TEST_CASE("Without abstention no form can decline", "[forecaster][shape]") {
  for (const Rung rung : kRungs) {
    const llm::ResponseShape shape =
        ShapeAt(rung, Scheme(), AnswerForm::kExtended, /*may_defer=*/false);
    CHECK((shape.response_format + shape.tools).find("defer") == std::string::npos);
  }
}

TEST_CASE("The last rung requests plain text", "[forecaster][shape]") {
  const llm::ResponseShape shape = ShapeAt(Rung::kText, Scheme(), AnswerForm::kExtended);
  CHECK((shape.response_format.empty() && shape.tools.empty() && shape.tool_choice.empty()));
}

TEST_CASE("The paper's tool is the same at every rung", "[forecaster][shape]") {
  const json named = json::parse(ShapeAt(Rung::kToolsNamed, Scheme(), AnswerForm::kPaper).tools);
  const json free = json::parse(ShapeAt(Rung::kToolsAuto, Scheme(), AnswerForm::kPaper).tools);
  CHECK(named[0] == free[0]);
}

TEST_CASE("Each shape names its rung and is built once per scheme", "[forecaster][shape]") {
  const RequestShapes shapes(AnswerForm::kExtended);
  for (const BinScheme* scheme : BinScheme::All()) {
    for (const Rung rung : kRungs) {
      const llm::ResponseShape& shape = shapes.At(rung, *scheme);
      CHECK(shape.tag == static_cast<int>(rung));
      CHECK(shape.tools == ShapeAt(rung, *scheme, AnswerForm::kExtended).tools);
      CHECK(shape.response_format == ShapeAt(rung, *scheme, AnswerForm::kExtended).response_format);
    }
  }
}

}  // namespace
}  // namespace kernelcast::forecaster
