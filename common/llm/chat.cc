#include "common/llm/chat.h"

#include <nlohmann/json.hpp>

#include "common/base/strings.h"

namespace kernelcast::llm {
namespace {

std::string MessagesJson(const std::vector<ChatMessage>& messages) {
  nlohmann::json array = nlohmann::json::array();
  for (const ChatMessage& message : messages) {
    array.push_back({{"role", message.role}, {"content", message.content}});
  }
  return array.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

Prompt::Prompt(const std::vector<ChatMessage>& messages) : json_(MessagesJson(messages)) {}

const std::string& ChatAnswer::text() const { return IsBlank(content) ? reasoning : content; }

std::string_view ErrorKindName(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kNone: return "ok";
    case ErrorKind::kUnreachable: return "unreachable";
    case ErrorKind::kConnectTimeout: return "connect_timeout";
    case ErrorKind::kFirstByteTimeout: return "first_byte_timeout";
    case ErrorKind::kSilenceTimeout: return "silence_timeout";
    case ErrorKind::kDeadlineExceeded: return "deadline_exceeded";
    case ErrorKind::kRateLimited: return "rate_limited";
    case ErrorKind::kSpendLimit: return "spend_limit";
    case ErrorKind::kUnavailable: return "unavailable";
    case ErrorKind::kServerError: return "server_error";
    case ErrorKind::kUnauthorized: return "unauthorized";
    case ErrorKind::kNotFound: return "not_found";
    case ErrorKind::kContextTooLong: return "context_too_long";
    case ErrorKind::kContentFilter: return "content_filter";
    case ErrorKind::kRefused: return "refused";
    case ErrorKind::kMalformed: return "malformed";
    case ErrorKind::kCutOff: return "cut_off";
    case ErrorKind::kAnswerTooLarge: return "answer_too_large";
    case ErrorKind::kCircuitOpen: return "circuit_open";
    case ErrorKind::kCancelled: return "cancelled";
  }
  return "unknown";
}

}  // namespace kernelcast::llm
