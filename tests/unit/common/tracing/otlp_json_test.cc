#include "common/tracing/otlp_json.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

namespace kernelcast {
namespace {

TEST_CASE("Spans become OTLP JSON, with hexadecimal ids and 64-bit numbers as text") {
  SpanData span;
  span.name = "kernelcast.v1.Worker/Compile";
  span.kind = SpanKind::kServer;
  span.context =
      *ParseTraceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "a=b");
  span.parent_span_id = {1, 2, 3, 4, 5, 6, 7, 8};
  span.start_ns = 1'700'000'000'123'456'789;
  span.end_ns = span.start_ns + 5;
  span.attributes = {{"rpc.method", std::string("Compile")},
                     {"rpc.grpc.status_code", int64_t{14}},
                     {"share", 0.5},
                     {"yes", true}};
  span.failed = true;
  span.failure = "bad \xFF byte";
  SpanData root;
  root.name = "root";
  root.context = span.context;

  const auto json = nlohmann::json::parse(OtlpJson({{"service.name", "test"}}, {span, root}));
  const auto& resource = json["resourceSpans"][0]["resource"]["attributes"];
  CHECK(resource[0]["key"] == "service.name");
  CHECK(resource[0]["value"]["stringValue"] == "test");
  const auto& spans = json["resourceSpans"][0]["scopeSpans"][0]["spans"];
  REQUIRE(spans.size() == 2);
  CHECK(spans[0]["traceId"] == "4bf92f3577b34da6a3ce929d0e0e4736");
  CHECK(spans[0]["spanId"] == "00f067aa0ba902b7");
  CHECK(spans[0]["parentSpanId"] == "0102030405060708");
  CHECK(spans[0]["traceState"] == "a=b");
  CHECK(spans[0]["kind"] == 2);
  CHECK(spans[0]["startTimeUnixNano"] == "1700000000123456789");
  CHECK(spans[0]["endTimeUnixNano"] == "1700000000123456794");
  CHECK(spans[0]["attributes"][1]["value"]["intValue"] == "14");
  CHECK(spans[0]["attributes"][2]["value"]["doubleValue"] == 0.5);
  CHECK(spans[0]["attributes"][3]["value"]["boolValue"] == true);
  CHECK(spans[0]["status"]["code"] == 2);
  CHECK(spans[0]["status"]["message"] == "bad \xEF\xBF\xBD byte");
  CHECK_FALSE(spans[1].contains("parentSpanId"));
  CHECK_FALSE(spans[1].contains("status"));
}

}  // namespace
}  // namespace kernelcast
