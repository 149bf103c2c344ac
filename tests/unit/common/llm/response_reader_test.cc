#include "common/llm/response_reader.h"

#include <catch2/catch.hpp>
#include <string>

namespace kernelcast::llm {
namespace {

constexpr int64_t kOneSecondNs = 1'000'000'000;
const char kAnswer[] = "data: {\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}\n\n";
const char kStop[] = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";

ResponseReader Read(int status, const std::string& body, TransferEnd end = TransferEnd::kFinished) {
  ResponseReader reader(AnswerLimits{}, 0);
  reader.OnStatus(status);
  if (!body.empty()) reader.OnBody(body);
  reader.OnEnd(end, "lost");
  REQUIRE(reader.ended());
  return reader;
}

}  // namespace

TEST_CASE("A stream ends at its end marker or with a finished answer and the response", "[llm]") {
  ResponseReader announced(AnswerLimits{}, 0);
  announced.OnStatus(200);
  CHECK(announced.OnBody(kAnswer));
  CHECK(announced.has_token());
  CHECK(!announced.OnBody("data: [DONE]\n\n"));
  CHECK(announced.ended());
  CHECK(announced.may_drain());
  CHECK(announced.error().kind == ErrorKind::kNone);
  CHECK(announced.TakeAnswer().content == "hi");

  CHECK(Read(200, std::string(kAnswer) + kStop).error().kind == ErrorKind::kNone);
  // The answer was complete when the connection broke.
  CHECK(Read(200, std::string(kAnswer) + kStop, TransferEnd::kBroken).error().kind ==
        ErrorKind::kNone);
  CHECK(Read(200, std::string(kAnswer) + "data: [DONE]").error().kind == ErrorKind::kNone);
}

TEST_CASE("A stream that stops before its answer ends is truncated", "[llm]") {
  CHECK(Read(200, kAnswer).error().kind == ErrorKind::kCutOff);
  ResponseReader lost = Read(200, kAnswer, TransferEnd::kBroken);
  CHECK(lost.error().kind == ErrorKind::kCutOff);
  CHECK(lost.error().message == "lost");
  CHECK(lost.TakeAnswer().content == "hi");
  CHECK(Read(200, std::string(kAnswer) + "data: {\"choices\":[{\"del", TransferEnd::kBroken)
            .error()
            .kind == ErrorKind::kCutOff);
}

TEST_CASE("A server that does not stream is supported", "[llm]") {
  const std::string whole = R"( {"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]})";
  CHECK(Read(200, whole).TakeAnswer().content == "hi");
  CHECK(Read(200, whole.substr(0, 30)).error().kind == ErrorKind::kMalformed);
  CHECK(Read(200, whole.substr(0, 30), TransferEnd::kBroken).error().kind == ErrorKind::kCutOff);
  CHECK(Read(200, "{}").error().kind == ErrorKind::kMalformed);
  CHECK(Read(200, "").error().kind == ErrorKind::kMalformed);
  CHECK(Read(200, "<html></html>").error().kind == ErrorKind::kMalformed);
}

TEST_CASE("Error bodies of every vendor give their message and code", "[llm]") {
  const ResponseReader openai =
      Read(400, R"({"error":{"message":"too long","type":"t","code":"context_length_exceeded"}})");
  CHECK(openai.error().kind == ErrorKind::kContextTooLong);
  CHECK(openai.error().code == "context_length_exceeded");
  CHECK(openai.error().message == "HTTP 400: too long");
  CHECK(openai.error().http_status == 400);
  CHECK(Read(404, R"({"error":"model 'x' not found"})").error().message ==
        "HTTP 404: model 'x' not found");
  CHECK(Read(422, R"({"detail":"bad field"})").error().message == "HTTP 422: bad field");
  CHECK(Read(400, R"({"object":"error","message":"no","type":"BadRequest"})").error().code ==
        "BadRequest");
  CHECK(Read(502, "<html>\nBad Gateway</html>").error().message ==
        "HTTP 502: <html> Bad Gateway</html>");
  CHECK(Read(503, "").error().kind == ErrorKind::kUnavailable);
  CHECK(Read(429, R"({"error":{"code":"insufficient_quota"}})").error().kind ==
        ErrorKind::kSpendLimit);
  CHECK(Read(500, R"({"error":{"message":7,"code":[]}})").error().kind == ErrorKind::kServerError);
  // The status counts although the body is lost.
  CHECK(Read(429, "", TransferEnd::kBroken).error().kind == ErrorKind::kRateLimited);
  CHECK(Read(302, "").error().kind == ErrorKind::kRefused);
}

TEST_CASE("Messages are bounded, and endless error bodies are not awaited", "[llm]") {
  ResponseReader reader(AnswerLimits{}, 0);
  reader.OnStatus(500);
  int fed = 0;
  while (reader.OnBody(std::string(1000, 'x')) && fed < 10'000) ++fed;
  CHECK(fed < 100);
  REQUIRE(reader.ended());
  CHECK(reader.error().kind == ErrorKind::kServerError);
  CHECK(reader.error().message.size() <= 500);
}

TEST_CASE("Headers that ask for a delay are kept with the error", "[llm]") {
  const auto wait = [](const char* name, const char* value) {
    ResponseReader reader(AnswerLimits{}, 0);
    reader.OnStatus(429);
    reader.OnHeader(name, value);
    reader.OnEnd(TransferEnd::kFinished, "");
    return reader.error().retry_after_ns;
  };
  CHECK(wait("Retry-After", "3") == 3 * kOneSecondNs);
  CHECK(wait("retry-after", "Thu, 01 Jan 1970 00:00:05 GMT") == 5 * kOneSecondNs);
  CHECK(wait("retry-after-ms", "1500") == 1500 * kOneSecondNs / 1000);
  CHECK(wait("retry-after", "later") == 0);

  ResponseReader never(AnswerLimits{}, 0);
  never.OnStatus(100);
  never.OnStatus(500);
  never.OnHeader("X-Should-Retry", "false");
  never.OnEnd(TransferEnd::kFinished, "");
  CHECK(never.retry_is_useless());
}

TEST_CASE("No answer uses more memory than its limit", "[llm]") {
  AnswerLimits limits;
  limits.max_answer_bytes = 1000;
  for (const char* start : {"{\"choices\":\"", "data: "}) {
    ResponseReader reader(limits, 0);
    reader.OnStatus(200);
    int fed = 0;
    bool more = reader.OnBody(start);
    while (more && ++fed < 10'000) more = reader.OnBody(std::string(1000, 'x'));
    CHECK(fed < 100);
    REQUIRE(reader.ended());
    CHECK(reader.error().kind == ErrorKind::kAnswerTooLarge);
  }
}

TEST_CASE("Without a response the network error counts", "[llm]") {
  CHECK(Read(0, "", TransferEnd::kUnreachable).error().kind == ErrorKind::kUnreachable);
  CHECK(Read(0, "", TransferEnd::kConnectTimeout).error().kind == ErrorKind::kConnectTimeout);
  CHECK(Read(0, "", TransferEnd::kBroken).error().kind == ErrorKind::kCutOff);
}

}  // namespace kernelcast::llm
