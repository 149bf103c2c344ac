#ifndef KERNELCAST_TESTS_FAKES_LLM_ENDPOINT_ANSWERS_H_
#define KERNELCAST_TESTS_FAKES_LLM_ENDPOINT_ANSWERS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tests/fakes/llm_endpoint/faults.h"

namespace kernelcast::testing {

struct FakeToolCall {
  std::string name;
  std::string arguments;
};

struct FakeAnswer {
  std::string content;
  std::string reasoning;
  std::vector<FakeToolCall> tool_calls;
  std::string finish_reason;  // empty: "tool_calls" or "stop", whichever fits
  // In the usage. 0: from the sizes of the prompt and the answer.
  size_t prompt_tokens = 0;
  size_t completion_tokens = 0;
  // Until the first token. Negative: FakeEndpointOptions::latency_us.
  int64_t latency_us = -1;
};

// A response written out by a test, to show what a real server sends.
struct FakeReply {
  int status = 200;
  std::string body;
  std::string type = "application/json";
  std::string headers = "";  // more of them, each ending in CRLF
};
// Empty: the endpoint answers as usual.
using ReplySource = std::function<std::optional<FakeReply>(const nlohmann::json& request)>;

// Makes the answer to a chat completion request; `fault` is kNone or a content fault. Called on the
// endpoint's thread.
using AnswerSource =
    std::function<FakeAnswer(const nlohmann::json& request, Fault fault, std::mt19937_64& random)>;

// A forecast in the requested form: a call of an offered tool, JSON by the schema of
// response_format, or fenced JSON. Properties named "p_..." get the probabilities, with a peak
// derived from the last message; "predicted_bin" names the largest.
AnswerSource ForecastAnswers();

// A fenced kernel: the last code block of the last message with a comment that differs each time,
// or a small built-in one if there is none. Faults: none, prose, half a block, two blocks.
AnswerSource KernelAnswers();

// Always answers with this text.
AnswerSource FixedAnswer(std::string content);

// The names of the published tool schema, for requests without one.
extern const char* const kForecastTool;
extern const char* const kDeferTool;
std::vector<std::string> ProbabilityNames();

}  // namespace kernelcast::testing

#endif  // KERNELCAST_TESTS_FAKES_LLM_ENDPOINT_ANSWERS_H_
