#ifndef KERNELCAST_COMMON_LLM_CHAT_H_
#define KERNELCAST_COMMON_LLM_CHAT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/trace_context.h"

// Requests to LLM endpoints and their outcomes. Plain values, no transport.
namespace kernelcast::llm {

struct ChatMessage {
  std::string role;  // "system", "user", "assistant"
  std::string content;
};

// The messages of a conversation as JSON, serialised once and shared by all requests that send
// them. Immutable. Invalid UTF-8 is replaced by U+FFFD.
class Prompt {
 public:
  explicit Prompt(const std::vector<ChatMessage>& messages);
  // A JSON array.
  const std::string& json() const { return json_; }

 private:
  const std::string json_;
};

// The part of a request that not every endpoint supports. Each text is JSON and sent unchanged; an
// empty text is left out.
struct ResponseShape {
  std::string response_format;  // an object
  std::string tools;            // an array
  std::string tool_choice;      // a string or an object
  // Returned in ChatOutcome::shape_tag. The client does not interpret it.
  int tag = 0;
};

// An endpoint, as passed to callbacks of a request.
struct EndpointRef {
  int index = 0;  // in LlmConfig::endpoints
  std::string_view name;
  std::string_view model;  // the model that the request names
};

struct ChatRequest {
  // Shared by the k samples of one question, without copying. Must be set.
  std::shared_ptr<const Prompt> prompt;
  // Empty: the model in the endpoint's configuration.
  std::string model;
  // Limit for the answer, including reasoning. 0: the endpoint's default.
  int max_tokens = 0;
  std::optional<double> temperature;
  std::optional<int64_t> seed;

  ResponseShape shape;
  // If set, called instead of using `shape` before each attempt, since attempts may go to different
  // endpoints. Runs on the client's thread; must be quick and must not block or throw.
  std::function<ResponseShape(const EndpointRef&)> shape_for;

  // Clock::MonotonicNs after which the answer is useless. 0: now plus total_ns of the
  // configuration. A retry that could not start before the deadline is not made.
  int64_t deadline_ns = 0;
  // Stopping this token has the same effect as Cancel.
  std::stop_token stop;

  // Index of the endpoint to prefer while it has room, because its cache holds the prompt. -1: any.
  int preferred_endpoint = -1;
  // If every endpoint is known to be down: wait for one to recover, up to the deadline, instead of
  // failing at once with kCircuitOpen.
  bool wait_for_recovery = false;
  // Allows one hedge: another attempt if the first token is late.
  bool may_hedge = true;

  // Maximum bytes of an answer, including reasoning and tool calls. A longer answer is cut with
  // kAnswerTooLarge. 0: LlmConfig::max_answer_bytes.
  int64_t max_answer_bytes = 0;
  // Maximum consecutive white-space characters. An answer with more is cut with kWhitespaceLoop. 0:
  // no limit.
  int max_whitespace_run = 64;

  // Trace context of the call. If valid, each attempt becomes a span, whose context is sent in the
  // headers traceparent and tracestate unless the endpoint's configuration disables that.
  TraceContext trace = {};

  // Called at most once, before the answer, when the first token of any attempt arrives; the prompt
  // is then in that endpoint's cache. Runs on the client's thread without locks; must not block.
  // May call Submit and Cancel.
  std::function<void(const EndpointRef&)> on_first_token;
};

struct TokenUsage {
  // Whether the endpoint reported usage. If not, all counts are 0.
  bool known = false;
  int64_t prompt_tokens = 0;  // including cached tokens
  int64_t cached_prompt_tokens = 0;
  int64_t completion_tokens = 0;  // including reasoning tokens
  int64_t reasoning_tokens = 0;
};

struct ToolCall {
  std::string id;
  std::string name;
  std::string arguments;  // as the model wrote it: normally JSON
};

enum class FinishReason {
  kUnknown,  // the endpoint named none, or an unknown one
  kStop,
  kLength,
  kToolCalls,
  kContentFilter,
  // Cut by the client at max_whitespace_run. The text before the cut may be complete.
  kWhitespaceLoop,
};

// A model's answer. Texts are UTF-8 and untrusted; nothing in them has been checked.
struct ChatAnswer {
  std::string content;
  // Also what the content says before </think> or a similar mark.
  std::string reasoning;
  // Why the model does not answer, if the endpoint reports it apart from the content.
  std::string refusal;
  std::vector<ToolCall> tool_calls;
  FinishReason finish_reason = FinishReason::kUnknown;
  TokenUsage usage;
  std::string model;  // as the endpoint names it
  std::string id;     // the endpoint's id of the answer

  // The text to read: some servers put all of it into the reasoning and leave the content empty.
  const std::string& text() const;
  // Ended at a limit on its length, by the endpoint or by the client.
  bool cut_off() const {
    return finish_reason == FinishReason::kLength || finish_reason == FinishReason::kWhitespaceLoop;
  }
};

enum class ErrorKind {
  kNone,
  kUnreachable,       // no connection: DNS, address, TLS, refused, proxy
  kConnectTimeout,    // no connection before the timeout
  kFirstByteTimeout,  // connected, but no response bytes
  kSilenceTimeout,    // the answer started and then stalled
  kDeadlineExceeded,  // the caller's deadline or the configured total
  kRateLimited,       // 429: too many requests
  kSpendLimit,        // 402, or a 429 because of money or quota
  kUnavailable,       // 503: the endpoint has no capacity now
  kServerError,       // another 5xx, or an error object inside the stream
  kUnauthorized,      // 401, 403
  kNotFound,          // 404: wrong path, or no such model
  kContextTooLong,    // the prompt, or the prompt and the answer, exceed the model's context
  kContentFilter,     // the endpoint's content filter refuses the prompt
  kRefused,           // another 4xx: the request is invalid or refused
  kMalformed,         // the response is not a chat completion
  kCutOff,            // connection lost, or the stream ended early
  kAnswerTooLarge,    // more than max_answer_bytes
  kCircuitOpen,       // every endpoint is known to be down; nothing was sent
  kCancelled,         // by Cancel, the stop token or the client's shutdown
};
inline constexpr int kErrorKindCount = static_cast<int>(ErrorKind::kCancelled) + 1;

// "rate_limited", ... Used in metrics and logs.
std::string_view ErrorKindName(ErrorKind kind);

struct ChatError {
  ErrorKind kind = ErrorKind::kNone;
  // One line of UTF-8 for people, of bounded length, without keys. Programs must use `kind`.
  std::string message;
  int http_status = 0;  // 0: no response
  // error.code, otherwise error.type, of the endpoint's response, e.g. "unsupported_parameter".
  // May be empty.
  std::string code;
  // Delay requested by the endpoint before the next request. 0: none.
  int64_t retry_after_ns = 0;
};

// How a call ended.
struct ChatOutcome {
  bool ok() const { return error.kind == ErrorKind::kNone; }

  ChatError error;
  // After an error: the part of the last attempt's answer that arrived.
  ChatAnswer answer;

  // The attempt that produced the answer or the error. endpoint_index is -1 if no attempt was made.
  int endpoint_index = -1;
  std::string endpoint;
  std::string model;  // the model that was requested
  int shape_tag = 0;

  int attempts = 0;     // attempts sent, including the hedge
  bool hedged = false;  // a hedge was sent
  // Times since Submit. first_token_ns is 0 if no token arrived.
  int64_t queued_ns = 0;  // until the first attempt was sent
  int64_t first_token_ns = 0;
  int64_t latency_ns = 0;
  // From the configured prices, in their currency. 0 without usage or prices.
  double cost = 0;
};

}  // namespace kernelcast::llm

#endif  // KERNELCAST_COMMON_LLM_CHAT_H_
