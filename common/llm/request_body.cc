#include "common/llm/request_body.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"

namespace kernelcast::llm {

std::string BuildRequestBody(const EndpointConfig& endpoint, const ChatRequest& request,
                             const ResponseShape& shape) {
  const auto sends = [&endpoint](std::string_view field) {
    return std::find(endpoint.omit.begin(), endpoint.omit.end(), field) == endpoint.omit.end();
  };
  nlohmann::json model = request.model.empty() ? endpoint.model : request.model;
  std::string body = absl::StrCat(
      R"({"model":)", model.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace),
      R"(,"stream":true)");
  if (sends("stream_options")) {
    absl::StrAppend(&body, R"(,"stream_options":{"include_usage":true})");
  }
  if (request.max_tokens > 0) {
    absl::StrAppend(&body, ",\"", endpoint.max_tokens_field, "\":", request.max_tokens);
  }
  if (request.temperature.has_value() && sends("temperature")) {
    absl::StrAppend(&body, R"(,"temperature":)", nlohmann::json(*request.temperature).dump());
  }
  if (request.seed.has_value() && sends("seed")) {
    absl::StrAppend(&body, R"(,"seed":)", *request.seed);
  }
  if (!shape.response_format.empty()) {
    absl::StrAppend(&body, R"(,"response_format":)", shape.response_format);
  }
  if (!shape.tools.empty()) absl::StrAppend(&body, R"(,"tools":)", shape.tools);
  if (!shape.tool_choice.empty()) absl::StrAppend(&body, R"(,"tool_choice":)", shape.tool_choice);
  // "{...}" without its braces.
  if (endpoint.extra_body.size() > 2) {
    absl::StrAppend(&body, ",", endpoint.extra_body.substr(1, endpoint.extra_body.size() - 2));
  }
  absl::StrAppend(&body, R"(,"messages":)", request.prompt->json(), "}");
  return body;
}

}  // namespace kernelcast::llm
