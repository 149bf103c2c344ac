#include "services/forecaster/llm/chat_reply.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/utf8.h"

namespace kernelcast::forecaster {
namespace {

constexpr int kNotImplemented = 501;

}  // namespace

ModelReply ReplyOf(llm::ChatAnswer answer) {
  ModelReply reply;
  reply.content = std::move(answer.content);
  reply.reasoning = std::move(answer.reasoning);
  reply.refusal = std::move(answer.refusal);
  if (answer.finish_reason == llm::FinishReason::kLength) reply.end = ModelReply::End::kAtLimit;
  if (answer.finish_reason == llm::FinishReason::kContentFilter) {
    reply.end = ModelReply::End::kFiltered;
  }
  for (llm::ToolCall& call : answer.tool_calls) {
    reply.tool_calls.push_back({std::move(call.name), std::move(call.arguments)});
  }
  return reply;
}

std::string ExcerptOf(const llm::ChatAnswer& answer) {
  for (const llm::ToolCall& call : answer.tool_calls) {
    if (!call.arguments.empty()) {
      return std::string(TruncateUtf8(call.arguments, kMaxModelDetailBytes));
    }
  }
  return std::string(TruncateUtf8(answer.text(), kMaxModelDetailBytes));
}

std::string CutOffText(const llm::ChatAnswer& answer, int max_tokens) {
  const int64_t tokens = answer.usage.known ? answer.usage.completion_tokens : 0;
  if (answer.usage.known && tokens == 0) {
    return "cut off before it began: the prompt fills the endpoint's context";
  }
  const std::string after = tokens > 0 ? absl::StrCat(" after ", tokens, " tokens") : "";
  if (max_tokens > 0 && tokens > 0 && tokens < max_tokens) {
    return absl::StrCat("cut off", after, ", before its limit of ", max_tokens,
                        ": raise the endpoint's context length");
  }
  return absl::StrCat("cut off", after, ": raise the limit, ",
                      max_tokens > 0 ? absl::StrCat("--llm-max-tokens ", max_tokens)
                                     : std::string("--llm-max-tokens or the endpoint's"));
}

bool IsRefusal(const llm::ChatError& error) {
  return error.kind == llm::ErrorKind::kRefused ||
         (error.kind == llm::ErrorKind::kServerError && error.http_status == kNotImplemented);
}

}  // namespace kernelcast::forecaster
