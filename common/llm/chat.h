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

// What is asked of an LLM endpoint, and what comes of it. Values; no transport.
namespace kernelcast::llm {

struct ChatMessage {
  std::string role;  // "system", "user", "assistant"
  std::string content;
};

// The messages of a conversation, written as JSON once and shared by all requests that send them.
// Immutable. Text that is not UTF-8 is mended with U+FFFD.
class Prompt {
 public:
  explicit Prompt(const std::vector<ChatMessage>& messages);
  // A JSON array.
  const std::string& json() const { return json_; }

 private:
  const std::string json_;
};

// The part of a request that not every endpoint understands. Each text is JSON, sent as it is;
// empty: left out.
struct ResponseShape {
  std::string response_format;  // an object
  std::string tools;            // an array
  std::string tool_choice;      // a string or an object
  // Given back in ChatOutcome::shape_tag; the client does not look at it.
  int tag = 0;
};

// An endpoint as a request that is about to go there sees it.
struct EndpointRef {
  int index = 0;  // in LlmConfig::endpoints
  std::string_view name;
  std::string_view model;  // that the request will name
};

struct ChatRequest {
  // Shared by the k samples of one question, without copying. Must be set.
  std::shared_ptr<const Prompt> prompt;
  // Empty: the one that the endpoint's configuration names.
  std::string model;
  // Of the answer, reasoning included; 0: left to the endpoint.
  int max_tokens = 0;
  std::optional<double> temperature;
  std::optional<int64_t> seed;

  ResponseShape shape;
  // When set, asked instead of `shape` before each attempt, which may each go to another endpoint.
  // Called on the client's thread: quick, and neither blocks nor throws.
  std::function<ResponseShape(const EndpointRef&)> shape_for;

  // Clock::MonotonicNs at which the answer is worth nothing any more; 0: total_ns of the
  // configuration from now. A retry that could not begin before it is not waited for.
  int64_t deadline_ns = 0;
  // Stops the call as Cancel does.
  std::stop_token stop;

  // Index of the endpoint that is asked while it has room, for its cache holds the prompt; -1: any.
  int preferred_endpoint = -1;
  // While every endpoint is known to be down: wait for one to come back, up to the deadline, rather
  // than fail at once with kCircuitOpen.
  bool wait_for_recovery = false;
  // One late second attempt is allowed when the first token is slow to come.
  bool may_hedge = true;

  // Bytes of an answer, reasoning and tool calls together, after which it is cut with
  // kAnswerTooLarge; 0: LlmConfig::max_answer_bytes.
  int64_t max_answer_bytes = 0;
  // White-space characters in a row after which an answer is cut with kWhitespaceLoop; 0: never.
  int max_whitespace_run = 64;

  // What the call is for. Where it is valid each attempt is a span in it, which goes along as the
  // headers traceparent and tracestate unless the endpoint's configuration says no.
  TraceContext trace = {};

  // Called at most once and before the answer, when the first token of any attempt has come: the
  // prompt is in that endpoint's cache. On the client's thread, under no lock; must not block. May
  // call Submit and Cancel.
  std::function<void(const EndpointRef&)> on_first_token;
};

struct TokenUsage {
  // The endpoint told; else all are 0.
  bool known = false;
  int64_t prompt_tokens = 0;  // cached ones included
  int64_t cached_prompt_tokens = 0;
  int64_t completion_tokens = 0;  // reasoning included
  int64_t reasoning_tokens = 0;
};

struct ToolCall {
  std::string id;
  std::string name;
  std::string arguments;  // as the model wrote it: JSON, if all went well
};

enum class FinishReason {
  kUnknown,  // the endpoint named none, or one not listed here
  kStop,
  kLength,
  kToolCalls,
  kContentFilter,
  // Cut by the client: max_whitespace_run reached. What came before may well be whole.
  kWhitespaceLoop,
};

// "stop", "whitespace_loop", ...
std::string_view FinishReasonName(FinishReason reason);

// What a model said. Texts are UTF-8. They come from a stranger: nothing in them is checked.
struct ChatAnswer {
  std::string content;
  std::string reasoning;
  std::vector<ToolCall> tool_calls;
  FinishReason finish_reason = FinishReason::kUnknown;
  TokenUsage usage;
  std::string model;  // as the endpoint calls it
  std::string id;     // of the answer, the endpoint's
};

enum class ErrorKind {
  kNone,
  kUnreachable,       // no connection: name, address, TLS, refused, proxy
  kConnectTimeout,    // no connection in time
  kFirstByteTimeout,  // connected, and then nothing
  kSilenceTimeout,    // an answer that began and stopped coming
  kDeadlineExceeded,  // the caller's deadline, or the configured total
  kRateLimited,       // 429: we ask too much
  kSpendLimit,        // 402, or a 429 that says that money or quota is used up
  kUnavailable,       // 503: the endpoint has no capacity now
  kServerError,       // another 5xx, or an error object inside the stream
  kUnauthorized,      // 401, 403
  kNotFound,          // 404: wrong path, or no such model
  kRefused,           // another 4xx: this request is not understood or not wanted
  kMalformed,         // what came is no chat completion
  kCutOff,            // connection lost, or the stream ended before its end
  kAnswerTooLarge,    // more than max_answer_bytes
  kCircuitOpen,       // every endpoint is known to be down; nothing was sent
  kCancelled,         // by Cancel, the stop token or the client's shutdown
};
inline constexpr int kErrorKindCount = static_cast<int>(ErrorKind::kCancelled) + 1;

// "rate_limited", ...: for metrics and logs.
std::string_view ErrorKindName(ErrorKind kind);

struct ChatError {
  ErrorKind kind = ErrorKind::kNone;
  // One line of UTF-8 for people, of bounded length, without keys. Programs look at `kind`.
  std::string message;
  int http_status = 0;  // 0: none came
  // error.code, or else error.type, of the endpoint's answer: "context_length_exceeded". Empty
  // where there was none.
  std::string code;
  // What the endpoint asked to be left alone for; 0: nothing was said.
  int64_t retry_after_ns = 0;
};

// How a call ended.
struct ChatOutcome {
  bool ok() const { return error.kind == ErrorKind::kNone; }

  ChatError error;
  // With an error: what had come of the last attempt.
  ChatAnswer answer;

  // Of the attempt that gave the answer or the error. Endpoint index -1: no attempt was made.
  int endpoint_index = -1;
  std::string endpoint;
  std::string model;  // that was asked for
  int shape_tag = 0;

  int attempts = 0;     // sent, the hedge included
  bool hedged = false;  // a hedge was sent
  // From Submit. first_token_ns is 0 when none came.
  int64_t queued_ns = 0;  // until the first attempt was sent
  int64_t first_token_ns = 0;
  int64_t latency_ns = 0;
  // By the prices of the configuration, in its currency; 0 without usage or prices.
  double cost = 0;
};

}  // namespace kernelcast::llm

#endif  // KERNELCAST_COMMON_LLM_CHAT_H_
