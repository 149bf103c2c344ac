#include "services/forecaster/llm/chat_reply.h"

#include <utility>

#include "common/base/utf8.h"

namespace kernelcast::forecaster {
namespace {

constexpr int kNotImplemented = 501;

}  // namespace

ModelReply ReplyOf(llm::ChatAnswer answer) {
  ModelReply reply;
  reply.content = std::move(answer.content);
  reply.reasoning = std::move(answer.reasoning);
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
  const std::string& text = answer.content.empty() ? answer.reasoning : answer.content;
  return std::string(TruncateUtf8(text, kMaxModelDetailBytes));
}

bool IsRefusal(const llm::ChatError& error) {
  return error.kind == llm::ErrorKind::kRefused ||
         (error.kind == llm::ErrorKind::kServerError && error.http_status == kNotImplemented);
}

}  // namespace kernelcast::forecaster
