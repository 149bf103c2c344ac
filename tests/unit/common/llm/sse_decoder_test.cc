#include "common/llm/sse_decoder.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

namespace kernelcast::llm {
namespace {

using Result = SseDecoder::Result;

std::vector<std::string> Decode(const std::string& bytes, size_t piece) {
  SseDecoder decoder(1000);
  std::vector<std::string> events;
  const auto sink = [&](std::string_view data) {
    events.emplace_back(data);
    return true;
  };
  for (size_t at = 0; at < bytes.size(); at += piece) {
    REQUIRE(decoder.Feed(std::string_view(bytes).substr(at, piece), sink) == Result::kMore);
  }
  REQUIRE(decoder.Finish(sink) == Result::kMore);
  return events;
}

}  // namespace

TEST_CASE("Events are decoded the same for any chunking", "[llm]") {
  const std::string bytes =
      "\xEF\xBB\xBF: a comment\r\n\r\ndata: one\n\nevent: x\r\ndata:two\r\ndata:  three\r\n\r\n"
      "id: 7\rdata: four\r\rdata\n\ndatum: no\nretry: 5\n\n:\n\ndata: [DONE]\n\n";
  const std::vector<std::string> expected = {"one", "two\n three", "four", "", "[DONE]"};
  for (size_t piece = 1; piece <= bytes.size(); ++piece) {
    INFO("pieces of " << piece);
    CHECK(Decode(bytes, piece) == expected);
  }
}

TEST_CASE("An event without its blank line is emitted at the end of the stream", "[llm]") {
  CHECK(Decode("data: one\n\ndata: two", 4) == std::vector<std::string>{"one", "two"});
  CHECK(Decode("data: one\n\ndata: two\n", 4) == std::vector<std::string>{"one", "two"});
}

TEST_CASE("A sink that declines gets no more events", "[llm]") {
  SseDecoder decoder(1000);
  int events = 0;
  const auto sink = [&](std::string_view) { return ++events < 2; };
  CHECK(decoder.Feed("data: 1\n\ndata: 2\n\ndata: 3\n\n", sink) == Result::kStopped);
  CHECK(decoder.Feed("data: 4\n\n", sink) == Result::kStopped);
  CHECK(decoder.Finish(sink) == Result::kStopped);
  CHECK(events == 2);
}

TEST_CASE("Events over the limit end the stream, on one line or many", "[llm]") {
  const auto sink = [](std::string_view) { return true; };
  SseDecoder one_line(100);
  Result result = Result::kMore;
  int fed = 0;
  CHECK(one_line.Feed("data: ", sink) == Result::kMore);
  while (result == Result::kMore && ++fed < 1000) result = one_line.Feed("xxxxxxxxxx", sink);
  CHECK(result == Result::kTooLong);
  CHECK(fed <= 12);

  SseDecoder many_lines(100);
  fed = 0;
  result = Result::kMore;
  while (result == Result::kMore && ++fed < 1000)
    result = many_lines.Feed("data: xxxxxxxx\n", sink);
  CHECK(result == Result::kTooLong);
  CHECK(fed <= 12);

  SseDecoder comment(100);
  CHECK(comment.Feed(std::string(":") + std::string(200, 'x'), sink) == Result::kTooLong);
}

}  // namespace kernelcast::llm
