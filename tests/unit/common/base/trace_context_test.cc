#include "common/base/trace_context.h"

#include <catch2/catch.hpp>
#include <string>
#include <thread>

#include "common/base/log.h"

namespace kernelcast {
namespace {

using Catch::Matchers::Contains;

constexpr char kTrace[] = "4bf92f3577b34da6a3ce929d0e0e4736";
constexpr char kSpan[] = "00f067aa0ba902b7";

std::string Header(const std::string& version, const std::string& trace, const std::string& span,
                   const std::string& flags) {
  return version + "-" + trace + "-" + span + "-" + flags;
}

TEST_CASE("A traceparent round-trips") {
  const std::string header = Header("00", kTrace, kSpan, "01");
  const auto context = ParseTraceparent(header);
  REQUIRE(context);
  CHECK(context->sampled);
  CHECK(TraceIdHex(*context) == kTrace);
  CHECK(SpanIdHex(*context) == kSpan);
  CHECK(FormatTraceparent(*context) == header);
  CHECK(context->state.empty());

  const auto unsampled = ParseTraceparent(Header("00", kTrace, kSpan, "00"));
  REQUIRE(unsampled);
  CHECK_FALSE(unsampled->sampled);
  CHECK(FormatTraceparent(*unsampled) == Header("00", kTrace, kSpan, "00"));
}

// Based on the W3C test suite for implementations.
TEST_CASE("An invalid traceparent is refused") {
  const std::string trace = kTrace;
  const std::string span = kSpan;
  for (const std::string& header : {
           std::string(),
           std::string("00"),
           std::string(54, '0'),
           Header("ff", trace, span, "01"),  // a forbidden version
           Header(".0", trace, span, "01"),  // and invalid ones
           Header("0.", trace, span, "01"),
           Header("0", trace, span, "01"),
           Header("000", trace, span, "01"),
           Header("00", std::string(32, '0'), span, "01"),  // ids of zeros
           Header("00", trace, std::string(16, '0'), "01"),
           Header("00", "." + trace.substr(1), span, "01"),  // ids with invalid characters
           Header("00", trace.substr(1) + ".", span, "01"),
           Header("00", "4BF92F3577B34DA6A3CE929D0E0E4736", span, "01"),
           Header("00", trace, "00F067AA0BA902B7", "01"),
           Header("00", trace, "." + span.substr(1), "01"),
           Header("00", trace.substr(1), span, "01"),  // too short and too long
           Header("00", trace + "0", span, "01"),
           Header("00", trace, span.substr(1), "01"),
           Header("00", trace, span + "0", "01"),
           Header("00", trace, span, ".0"),  // flags
           Header("00", trace, span, "0."),
           Header("00", trace, span, "1"),
           Header("00", trace, span, "001"),
           Header("00", trace, span, "01") + "-",  // version 0 ends there
           Header("00", trace, span, "01") + "-what",
           Header("00", trace, span, "01") + ".",
           Header("cc", trace, span, "01") + ".what",  // a later one may only continue after '-'
           "00_" + trace + "-" + span + "-01",
           " " + Header("00", trace, span, "01"),
       }) {
    CAPTURE(header);
    CHECK_FALSE(ParseTraceparent(header));
  }
}

TEST_CASE("A later version is read like version 0") {
  for (const char* rest : {"", "-", "-what-the-future-will-be-like"}) {
    const auto context = ParseTraceparent(Header("cc", kTrace, kSpan, "01") + rest);
    REQUIRE(context);
    CHECK(FormatTraceparent(*context) == Header("00", kTrace, kSpan, "01"));
  }
}

TEST_CASE("Unknown flags are ignored") {
  const auto context = ParseTraceparent(Header("00", kTrace, kSpan, "fe"));
  REQUIRE(context);
  CHECK_FALSE(context->sampled);
  CHECK(ParseTraceparent(Header("00", kTrace, kSpan, "ff"))->sampled);
}

TEST_CASE("A tracestate is forwarded unless it cannot be sent") {
  const std::string header = Header("00", kTrace, kSpan, "01");
  CHECK(ParseTraceparent(header, "foo=1,bar=2")->state == "foo=1,bar=2");
  CHECK(ParseTraceparent(header, std::string(512, 'a'))->state.size() == 512);
  CHECK(ParseTraceparent(header, std::string(513, 'a'))->state.empty());
  CHECK(ParseTraceparent(header, "foo=1\r\nevil: 2")->state.empty());
}

TEST_CASE("The current span is per thread and nests") {
  CHECK(CurrentTrace() == nullptr);
  const TraceContext outer = *ParseTraceparent(Header("00", kTrace, kSpan, "01"));
  const TraceContext inner = *ParseTraceparent(Header("00", kTrace, "1111111111111111", "01"));
  const TraceContext nothing;
  {
    const TraceScope outer_scope(&outer);
    CHECK(CurrentTrace() == &outer);
    {
      const TraceScope inner_scope(&inner);
      CHECK(CurrentTrace() == &inner);
      const TraceContext* elsewhere = &inner;
      std::thread([&] { elsewhere = CurrentTrace(); }).join();
      CHECK(elsewhere == nullptr);
    }
    CHECK(CurrentTrace() == &outer);
    {
      const TraceScope none(&nothing);
      CHECK(CurrentTrace() == nullptr);
    }
    const std::string line = FormatLogLine(LogLevel::kInfo, 0, "test", "message", {});
    CHECK_THAT(line, Contains(std::string("\"trace_id\":\"") + kTrace + "\""));
    CHECK_THAT(line, Contains(std::string("\"span_id\":\"") + kSpan + "\""));
  }
  CHECK(CurrentTrace() == nullptr);
  CHECK_THAT(FormatLogLine(LogLevel::kInfo, 0, "test", "message", {}), !Contains("trace_id"));
}

}  // namespace
}  // namespace kernelcast
