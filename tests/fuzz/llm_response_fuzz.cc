// libFuzzer harness for responses of LLM endpoints. An input is a byte that selects how the rest is
// chunked, a byte for the status, and a response body. make_llm_corpus.py writes seeds.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "common/base/utf8.h"
#include "common/llm/response_reader.h"

namespace kernelcast::llm {
namespace {

constexpr int64_t kMaxAnswerBytes = 512;

void Require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "violated: %s\n", what);
  std::abort();
}

struct Reading {
  ChatError error;
  ChatAnswer answer;
};

Reading Read(std::string_view body, int status, TransferEnd end, uint32_t pieces) {
  AnswerLimits limits;
  limits.max_answer_bytes = kMaxAnswerBytes;
  ResponseReader reader(limits, 0);
  reader.OnStatus(status);
  while (!body.empty()) {
    size_t size = body.size();
    if (pieces != 0) {
      pieces = pieces * 1664525 + 1013904223;
      size = std::min<size_t>(size, 1 + (pieces >> 16) % 9);
    }
    if (!reader.OnBody(body.substr(0, size))) break;
    body.remove_prefix(size);
  }
  reader.OnEnd(end, "lost");
  Require(reader.ended(), "every response ends as something");
  return {reader.error(), reader.TakeAnswer()};
}

void Check(const Reading& reading) {
  Require(IsValidUtf8(reading.error.message) && reading.error.message.size() <= 600,
          "messages are short UTF-8");
  Require(reading.error.message.find('\n') == std::string::npos, "messages are one line");
  Require((reading.error.kind == ErrorKind::kNone) == reading.error.message.empty(),
          "errors have messages, and answers have none");
  size_t bytes = reading.answer.content.size() + reading.answer.reasoning.size();
  Require(IsValidUtf8(reading.answer.content) && IsValidUtf8(reading.answer.reasoning),
          "answers are UTF-8");
  for (const ToolCall& call : reading.answer.tool_calls) {
    bytes += call.arguments.size();
    Require(IsValidUtf8(call.arguments), "arguments are UTF-8");
  }
  Require(bytes <= kMaxAnswerBytes, "answers keep to their limit");
  const TokenUsage& usage = reading.answer.usage;
  Require(usage.cached_prompt_tokens <= usage.prompt_tokens && usage.cached_prompt_tokens >= 0 &&
              usage.completion_tokens >= 0,
          "figures are possible");
}

}  // namespace
}  // namespace kernelcast::llm

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kernelcast::llm;
  if (size < 2) return 0;
  const uint32_t pieces = data[0] + 1U;
  constexpr int kStatuses[] = {200, 200, 200, 400, 429, 500, 503, 302};
  const int status = kStatuses[data[1] % 8];
  const TransferEnd end = (data[1] & 8) != 0 ? TransferEnd::kBroken : TransferEnd::kFinished;
  const std::string_view body(reinterpret_cast<const char*>(data) + 2, size - 2);
  const Reading whole = Read(body, status, end, 0);
  Check(whole);
  const Reading cut = Read(body, status, end, pieces);
  Check(cut);
  Require(whole.error.kind == cut.error.kind, "an error does not depend on the pieces");
  Require(whole.answer.content == cut.answer.content &&
              whole.answer.reasoning == cut.answer.reasoning &&
              whole.answer.finish_reason == cut.answer.finish_reason &&
              whole.answer.tool_calls.size() == cut.answer.tool_calls.size(),
          "an answer does not depend on the pieces");
  return 0;
}
