#include "common/llm/request_body.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

namespace kernelcast::llm {
namespace {

ChatRequest Request() {
  ChatRequest request;
  request.prompt = std::make_shared<const Prompt>(
      std::vector<ChatMessage>{{"system", "s"}, {"user", "caf\xC3\xA9 \xFF \"q\"\n"}});
  return request;
}

}  // namespace

TEST_CASE("A request is streamed, asks for usage and ends with its messages", "[llm]") {
  EndpointConfig endpoint;
  endpoint.model = "m\"1";
  const std::string body = BuildRequestBody(endpoint, Request(), {});
  const nlohmann::json json = nlohmann::json::parse(body);
  CHECK(json["model"] == "m\"1");
  CHECK(json["stream"] == true);
  CHECK(json["stream_options"]["include_usage"] == true);
  CHECK(json["messages"][1]["content"] == "caf\xC3\xA9 \xEF\xBF\xBD \"q\"\n");
  CHECK(json.size() == 4);
  CHECK(body.ends_with("}]}"));
  CHECK(!json.contains("n"));
}

TEST_CASE("Options and shape are sent with the endpoint's field names and omissions", "[llm]") {
  ChatRequest request = Request();
  request.model = "other";
  request.max_tokens = 10;
  request.temperature = 0.5;
  request.seed = -7;
  ResponseShape shape;
  shape.response_format = R"({"type":"json_object"})";
  shape.tools = R"([{"type":"function"}])";
  shape.tool_choice = R"("auto")";
  EndpointConfig endpoint;
  endpoint.model = "m";
  endpoint.extra_body = R"({"reasoning_effort":"low"})";
  const nlohmann::json all = nlohmann::json::parse(BuildRequestBody(endpoint, request, shape));
  CHECK(all["model"] == "other");
  CHECK(all["max_tokens"] == 10);
  CHECK(all["temperature"] == 0.5);
  CHECK(all["seed"] == -7);
  CHECK(all["response_format"]["type"] == "json_object");
  CHECK(all["tools"].size() == 1);
  CHECK(all["tool_choice"] == "auto");
  CHECK(all["reasoning_effort"] == "low");

  endpoint.max_tokens_field = "max_completion_tokens";
  endpoint.omit = {"temperature", "seed", "stream_options"};
  const nlohmann::json less = nlohmann::json::parse(BuildRequestBody(endpoint, request, shape));
  CHECK(less["max_completion_tokens"] == 10);
  for (const char* field : {"max_tokens", "temperature", "seed", "stream_options"}) {
    CHECK(!less.contains(field));
  }
}

}  // namespace kernelcast::llm
