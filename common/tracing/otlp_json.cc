#include "common/tracing/otlp_json.h"

#include <nlohmann/json.hpp>
#include <type_traits>
#include <variant>

#include "common/base/version.h"

namespace kernelcast {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kStatusError = 2;

// Protobuf's JSON encodes 64-bit numbers as strings.
Json ValueJson(const SpanValue& value) {
  return std::visit(
      [](const auto& v) -> Json {
        using Value = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<Value, std::string>) {
          return {{"stringValue", v}};
        } else if constexpr (std::is_same_v<Value, bool>) {
          return {{"boolValue", v}};
        } else if constexpr (std::is_same_v<Value, int64_t>) {
          return {{"intValue", std::to_string(v)}};
        } else {
          return {{"doubleValue", v}};
        }
      },
      value);
}

Json SpanJson(const SpanData& span) {
  Json json = {{"traceId", TraceIdHex(span.context)}, {"spanId", SpanIdHex(span.context)}};
  if (!span.context.state.empty()) json["traceState"] = span.context.state;
  TraceContext parent;
  parent.span_id = span.parent_span_id;
  if (span.parent_span_id != decltype(span.parent_span_id){}) {
    json["parentSpanId"] = SpanIdHex(parent);
  }
  json["name"] = span.name;
  json["kind"] = static_cast<int>(span.kind);
  json["startTimeUnixNano"] = std::to_string(span.start_ns);
  json["endTimeUnixNano"] = std::to_string(span.end_ns);
  Json attributes = Json::array();
  for (const auto& [key, value] : span.attributes) {
    attributes.push_back({{"key", key}, {"value", ValueJson(value)}});
  }
  if (!attributes.empty()) json["attributes"] = std::move(attributes);
  if (span.failed) json["status"] = {{"message", span.failure}, {"code", kStatusError}};
  return json;
}

}  // namespace

std::string OtlpJson(const TraceResource& resource, const std::vector<SpanData>& spans) {
  Json attributes = Json::array();
  for (const auto& [key, value] : resource) {
    attributes.push_back({{"key", key}, {"value", {{"stringValue", value}}}});
  }
  Json list = Json::array();
  for (const SpanData& span : spans) list.push_back(SpanJson(span));
  const Json scope = {{"name", "kernelcast"}, {"version", std::string(Version())}};
  const Json scope_spans = Json::array({{{"scope", scope}, {"spans", std::move(list)}}});
  const Json resource_spans = Json::array(
      {{{"resource", {{"attributes", std::move(attributes)}}}, {"scopeSpans", scope_spans}}});
  const Json request = {{"resourceSpans", resource_spans}};
  return request.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace kernelcast
