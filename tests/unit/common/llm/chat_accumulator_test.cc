#include "common/llm/chat_accumulator.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <string>

namespace kernelcast::llm {
namespace {

using State = ChatAccumulator::State;
using Json = nlohmann::json;

std::string Delta(const Json& delta, const Json& finish_reason = nullptr) {
  const Json choice = {{"index", 0}, {"delta", delta}, {"finish_reason", finish_reason}};
  return Json{{"id", "x"}, {"model", "m"}, {"choices", Json::array({choice})}}.dump();
}

std::string CallDelta(const Json& call) { return Delta(Json{{"tool_calls", Json::array({call})}}); }

Json Function(const std::string& name, const std::string& arguments) {
  Json function = Json::object();
  if (!name.empty()) function["name"] = name;
  function["arguments"] = arguments;
  return function;
}

}  // namespace

TEST_CASE("Content and reasoning are concatenated, and usage is read with cached tokens", "[llm]") {
  ChatAccumulator answer{AnswerLimits{}};
  CHECK(answer.OnEvent(Delta({{"role", "assistant"}, {"content", ""}})) == State::kOpen);
  CHECK(!answer.has_token());
  CHECK(answer.OnEvent(Delta({{"reasoning", "think"}, {"reasoning_content", "think"}})) ==
        State::kOpen);
  CHECK(answer.has_token());
  answer.OnEvent(Delta({{"reasoning_content", "ing"}, {"content", nullptr}}));
  answer.OnEvent(Delta({{"content", "4"}}));
  answer.OnEvent(Delta({{"content", "2"}}));
  CHECK(answer.OnEvent(Delta(Json::object(), "stop")) == State::kFinished);
  CHECK(answer.OnEvent(
            R"({"choices":[],"usage":{"prompt_tokens":100,"completion_tokens":7,
                "prompt_tokens_details":{"cached_tokens":60},
                "completion_tokens_details":{"reasoning_tokens":5}}})") == State::kFinished);
  CHECK(answer.OnEvent("[DONE]") == State::kDone);
  CHECK(answer.OnEvent(Delta({{"content", "more"}})) == State::kDone);
  const ChatAnswer got = answer.TakeAnswer();
  CHECK(got.content == "42");
  CHECK(got.reasoning == "thinking");
  CHECK(got.finish_reason == FinishReason::kStop);
  CHECK(got.model == "m");
  CHECK(got.usage.known);
  CHECK(got.usage.prompt_tokens == 100);
  CHECK(got.usage.cached_prompt_tokens == 60);
  CHECK(got.usage.completion_tokens == 7);
  CHECK(got.usage.reasoning_tokens == 5);
}

TEST_CASE("Tool calls are assembled by index even when they interleave", "[llm]") {
  ChatAccumulator answer{AnswerLimits{}};
  answer.OnEvent(CallDelta({{"index", 0}, {"id", "a"}, {"function", Function("one", "")}}));
  answer.OnEvent(CallDelta({{"index", 1}, {"id", "b"}, {"function", Function("two", "{")}}));
  answer.OnEvent(CallDelta({{"index", 0}, {"function", Function("", "{\"x\":")}}));
  answer.OnEvent(CallDelta({{"index", 1}, {"function", Function("", "}")}}));
  answer.OnEvent(CallDelta({{"index", 0}, {"function", Function("", "1}")}}));
  CHECK(answer.OnEvent(Delta(Json::object(), "tool_calls")) == State::kFinished);
  const ChatAnswer got = answer.TakeAnswer();
  REQUIRE(got.tool_calls.size() == 2);
  CHECK(got.tool_calls[0].name == "one");
  CHECK(got.tool_calls[0].arguments == "{\"x\":1}");
  CHECK(got.tool_calls[1].name == "two");
  CHECK(got.tool_calls[1].arguments == "{}");
  CHECK(got.tool_calls[1].id == "b");
}

TEST_CASE("Tool calls with missing or repeated indices are distinguished by id", "[llm]") {
  for (const bool indexed : {false, true}) {
    ChatAccumulator answer{AnswerLimits{}};
    Json first = {{"id", "a"}, {"function", Function("one", "{}")}};
    Json second = {{"id", "b"}, {"function", Function("two", "[")}};
    Json rest = {{"function", Function("", "]")}};
    if (indexed) {
      for (Json* call : {&first, &second, &rest}) (*call)["index"] = 0;
    }
    answer.OnEvent(CallDelta(first));
    answer.OnEvent(CallDelta(second));
    answer.OnEvent(CallDelta(rest));
    const ChatAnswer got = answer.TakeAnswer();
    REQUIRE(got.tool_calls.size() == 2);
    CHECK(got.tool_calls[0].arguments == "{}");
    CHECK(got.tool_calls[1].arguments == "[]");
  }
}

TEST_CASE("A name repeated in each chunk is one name, and an object argument is serialised",
          "[llm]") {
  ChatAccumulator answer{AnswerLimits{}};
  answer.OnEvent(CallDelta({{"index", 0}, {"id", "a"}, {"function", Function("one", "{")}}));
  answer.OnEvent(CallDelta({{"index", 0}, {"id", "a"}, {"function", Function("one", "}")}}));
  Json call = {{"index", 1}, {"id", "b"}, {"function", {{"name", "two"}}}};
  call["function"]["arguments"] = {{"x", 1}};
  answer.OnEvent(CallDelta(call));
  const ChatAnswer got = answer.TakeAnswer();
  REQUIRE(got.tool_calls.size() == 2);
  CHECK(got.tool_calls[0].name == "one");
  CHECK(got.tool_calls[0].arguments == "{}");
  CHECK(got.tool_calls[1].arguments == "{\"x\":1}");
}

TEST_CASE("Sixty-four consecutive blanks cut an answer, across events and in arguments", "[llm]") {
  ChatAccumulator content{AnswerLimits{}};
  CHECK(content.OnEvent(Delta({{"content", "{\"a\":1}"}})) == State::kOpen);
  for (int i = 0; i < 15; ++i) {
    CHECK(content.OnEvent(Delta({{"content", " \n\t "}})) == State::kOpen);
  }
  CHECK(content.OnEvent(Delta({{"content", " \n\t "}})) == State::kCut);
  const ChatAnswer got = content.TakeAnswer();
  CHECK(got.content == "{\"a\":1}");
  CHECK(got.finish_reason == FinishReason::kWhitespaceLoop);

  ChatAccumulator arguments{AnswerLimits{}};
  State state = arguments.OnEvent(
      CallDelta({{"index", 0}, {"id", "a"}, {"function", Function("one", "{\"a\":1")}}));
  CHECK(state == State::kOpen);
  state = arguments.OnEvent(
      CallDelta({{"index", 0}, {"function", Function("", std::string(100, '\n'))}}));
  CHECK(state == State::kCut);
  CHECK(arguments.TakeAnswer().tool_calls[0].arguments == "{\"a\":1");
}

TEST_CASE("Blanks between words cut nothing and the limit can be disabled", "[llm]") {
  ChatAccumulator words{AnswerLimits{}};
  for (int i = 0; i < 100; ++i) {
    REQUIRE(words.OnEvent(Delta({{"content", std::string(60, ' ') + "x"}})) == State::kOpen);
  }
  AnswerLimits limits;
  limits.max_whitespace_run = 0;
  ChatAccumulator lifted{limits};
  CHECK(lifted.OnEvent(Delta({{"content", std::string(1000, ' ')}})) == State::kOpen);
}

TEST_CASE("An answer over its size limit fails in every channel", "[llm]") {
  AnswerLimits limits;
  limits.max_answer_bytes = 100;
  ChatAccumulator answer{limits};
  CHECK(answer.OnEvent(Delta({{"reasoning", std::string(60, 'x')}})) == State::kOpen);
  CHECK(answer.OnEvent(Delta({{"content", std::string(40, 'x')}})) == State::kOpen);
  CHECK(answer.OnEvent(Delta({{"content", "x"}})) == State::kFailed);
  CHECK(answer.error().kind == ErrorKind::kAnswerTooLarge);

  ChatAccumulator calls{AnswerLimits{}};
  State state = State::kOpen;
  for (int i = 0; i < 100 && state == State::kOpen; ++i) {
    state = calls.OnEvent(CallDelta({{"index", i}, {"id", "a"}, {"function", Function("f", "")}}));
  }
  CHECK(state == State::kFailed);
  CHECK(calls.error().kind == ErrorKind::kMalformed);
}

TEST_CASE("A new id continues a call whose arguments are incomplete", "[llm]") {
  ChatAccumulator answer{AnswerLimits{}};
  answer.OnEvent(CallDelta({{"index", 0}, {"id", "a"}, {"function", Function("one", "{\"x}")}}));
  answer.OnEvent(CallDelta({{"index", 0}, {"id", "b"}, {"function", Function("one", "\\\"\":1")}}));
  answer.OnEvent(CallDelta({{"index", 0}, {"id", "c"}, {"function", Function("", "}")}}));
  answer.OnEvent(CallDelta({{"index", 0}, {"id", "d"}, {"function", Function("one", "{}")}}));
  const ChatAnswer got = answer.TakeAnswer();
  REQUIRE(got.tool_calls.size() == 2);
  CHECK(got.tool_calls[0].arguments == R"({"x}\"":1})");
  CHECK(got.tool_calls[1].arguments == "{}");
  // A list without ids and indices.
  ChatAccumulator list{AnswerLimits{}};
  list.OnEvent(
      Delta({{"tool_calls",
              {{{"function", Function("one", "{}")}}, {{"function", Function("two", "{}")}}}}}));
  CHECK(list.TakeAnswer().tool_calls.size() == 2);
}

TEST_CASE("Reasoning that a server leaves in the content is separated", "[llm]") {
  const auto read = [](const std::string& content) {
    ChatAccumulator answer{AnswerLimits{}};
    answer.OnEvent(Delta({{"content", content}}));
    return answer.TakeAnswer();
  };
  for (const char* text : {"<think>hm</think>\n42", "hm\n</think> 42", "[THINK]hm[/THINK]42",
                           "<|channel|>analysis<|message|>hm<|channel|>final<|message|>42"}) {
    INFO(text);
    CHECK(read(text).content == "42");
    CHECK(read(text).reasoning == "hm");
  }
  CHECK(read("<think>hm").content.empty());
  CHECK(read("<think>hm").text() == "hm");
  CHECK(read("a <think> b").content == "a <think> b");
}

TEST_CASE("Errors inside a stream keep their kind", "[llm]") {
  const auto kind = [](const char* event) {
    ChatAccumulator answer{AnswerLimits{}};
    CHECK(answer.OnEvent(event) == State::kFailed);
    CHECK(!answer.error().message.empty());
    return answer.error().kind;
  };
  CHECK(kind(R"({"error":{"message":"boom","type":"server_error"}})") == ErrorKind::kServerError);
  CHECK(kind(R"({"error":"boom"})") == ErrorKind::kServerError);
  CHECK(kind(R"({"error":{"message":"busy","code":503}})") == ErrorKind::kUnavailable);
  CHECK(kind(R"({"error":{"message":"slow","code":429},"choices":[]})") == ErrorKind::kRateLimited);
  CHECK(kind(R"({"error":{"message":"slow","code":"rate_limit_exceeded"}})") ==
        ErrorKind::kRateLimited);
  CHECK(kind(R"({"error":{"message":"pay","type":"insufficient_quota"}})") ==
        ErrorKind::kSpendLimit);
  CHECK(kind(R"({"object":"error","message":"bad","code":400})") == ErrorKind::kRefused);
  CHECK(kind(R"({"error":{"message":"bad","code":"400"}})") == ErrorKind::kRefused);
  CHECK(kind(R"({"error":{"message":"slow","code":"429"}})") == ErrorKind::kRateLimited);
  CHECK(kind(R"({"error":{"message":"x","code":"context_length_exceeded"}})") ==
        ErrorKind::kContextTooLong);
  CHECK(kind(R"({"choices":[{"error":{"message":"x","code":"503"}}]})") == ErrorKind::kUnavailable);
  CHECK(kind(R"({"choices":[{"delta":{},"finish_reason":"error"}]})") == ErrorKind::kServerError);
  CHECK(kind(R"({"message":"bad","type":"invalid_request_error"})") == ErrorKind::kRefused);
  CHECK(kind(R"({"detail":"boom"})") == ErrorKind::kServerError);
}

TEST_CASE("Events that are not answer chunks are skipped or fail, but never crash", "[llm]") {
  for (const char* event :
       {"{}", R"({"choices":null})", R"({"choices":{}})", R"({"choices":[1,null,"x"]})",
        R"({"choices":[{"delta":5}]})", R"({"choices":[{"delta":{"content":7}}]})",
        R"({"choices":[{"delta":{"tool_calls":{}}}]})",
        R"({"choices":[{"delta":{"tool_calls":[1,{},{"function":3}]}}]})",
        R"({"choices":[{"index":1,"delta":{"content":"second"}}]})", R"({"usage":7})",
        R"({"usage":{"prompt_tokens":"x","completion_tokens":-5}})"}) {
    INFO(event);
    ChatAccumulator answer{AnswerLimits{}};
    CHECK(answer.OnEvent(event) == State::kOpen);
    CHECK(!answer.has_token());
  }
  for (const char* event : {"", "[1]", "{\"choices\":[", "null", "data"}) {
    INFO(event);
    ChatAccumulator answer{AnswerLimits{}};
    CHECK(answer.OnEvent(event) == State::kFailed);
    CHECK(answer.error().kind == ErrorKind::kMalformed);
  }
  ChatAccumulator deep{AnswerLimits{}};
  const std::string nested =
      R"({"choices":[{"delta":{"tool_calls":[{"function":{"name":"f","arguments":{"a":)" +
      std::string(100'000, '[') + std::string(100'000, ']') + "}}}]}}]}";
  CHECK(deep.OnEvent(nested) == State::kFailed);
}

TEST_CASE("A stream that ends without content is malformed", "[llm]") {
  ChatAccumulator answer{AnswerLimits{}};
  CHECK(answer.OnEvent("[DONE]") == State::kFailed);
  CHECK(answer.error().kind == ErrorKind::kMalformed);
}

TEST_CASE("A non-streamed answer is read like a streamed one", "[llm]") {
  ChatAccumulator answer{AnswerLimits{}};
  CHECK(answer.OnWhole(
            R"({"choices":[{"index":0,"finish_reason":"length","message":{"content":[{"type":"text",
               "text":"a"},{"type":"text","text":"b"}],"reasoning_content":"r",
               "tool_calls":[{"id":"x","function":{"name":"f","arguments":"{}"}}]}}],
               "usage":{"prompt_tokens":3,"completion_tokens":4,"prompt_cache_hit_tokens":2}})") ==
        State::kDone);
  const ChatAnswer got = answer.TakeAnswer();
  CHECK(got.content == "ab");
  CHECK(got.reasoning == "r");
  CHECK(got.finish_reason == FinishReason::kLength);
  REQUIRE(got.tool_calls.size() == 1);
  CHECK(got.tool_calls[0].name == "f");
  CHECK(got.usage.cached_prompt_tokens == 2);
}

}  // namespace kernelcast::llm
