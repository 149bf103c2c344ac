#ifndef KERNELCAST_COMMON_LLM_RESPONSE_READER_H_
#define KERNELCAST_COMMON_LLM_RESPONSE_READER_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "common/llm/chat.h"
#include "common/llm/chat_accumulator.h"
#include "common/llm/sse_decoder.h"
#include "common/llm/transport.h"

namespace kernelcast::llm {

// Turns an HTTP response into an answer or a typed error. The response is a stream of events, one
// JSON object from an endpoint that does not stream, or an error body. Uses memory of at most a few
// times max_answer_bytes. Not thread-safe.
class ResponseReader {
 public:
  // `wall_ns`: the current time since the Unix epoch, for a Retry-After with a date.
  ResponseReader(const AnswerLimits& limits, int64_t wall_ns);

  void OnStatus(int http_status);
  void OnHeader(std::string_view name, std::string_view value);
  // Returns false if no more input is needed; ended() is then true.
  bool OnBody(std::string_view bytes);
  void OnEnd(TransferEnd end, std::string_view message);

  // Whether the answer or the error is complete.
  bool ended() const { return ended_; }
  // If the answer ended before the response: whether the response will end properly by itself.
  bool may_drain() const { return may_drain_; }
  bool has_token() const { return accumulator_.has_token(); }
  // Valid once ended. kNone: there is an answer.
  const ChatError& error() const { return error_; }
  // The endpoint says that a retry is useless.
  bool retry_is_useless() const { return retry_is_useless_; }
  // The part of the answer that arrived, also after an error.
  ChatAnswer TakeAnswer() { return accumulator_.TakeAnswer(); }

 private:
  enum class Body { kUnknown, kEvents, kJson, kError };

  bool OnEvents(SseDecoder::Result result);
  void ReadErrorBody();
  void Fail(ErrorKind kind, std::string_view message);
  void End() { ended_ = true; }

  const AnswerLimits limits_;
  const int64_t wall_ns_;
  const size_t max_event_bytes_;

  int http_status_ = 0;
  int64_t retry_after_ns_ = 0;
  bool retry_is_useless_ = false;
  Body body_ = Body::kUnknown;
  // The body in kJson and kError, its beginning in kEvents.
  std::string buffer_;
  bool any_event_ = false;
  SseDecoder decoder_;
  ChatAccumulator accumulator_;
  bool ended_ = false;
  bool may_drain_ = false;
  ChatError error_;
};

}  // namespace kernelcast::llm

#endif  // KERNELCAST_COMMON_LLM_RESPONSE_READER_H_
