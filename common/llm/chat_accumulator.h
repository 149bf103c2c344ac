#ifndef KERNELCAST_COMMON_LLM_CHAT_ACCUMULATOR_H_
#define KERNELCAST_COMMON_LLM_CHAT_ACCUMULATOR_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/llm/chat.h"

namespace kernelcast::llm {

struct AnswerLimits {
  // Of content, reasoning and tool calls together.
  int64_t max_answer_bytes = 1 << 20;
  int max_whitespace_run = 64;  // 0: none
};

// Puts an answer together from the objects of its stream, or from the one object of an endpoint
// that does not stream. Only the first choice counts. Not thread-safe.
class ChatAccumulator {
 public:
  enum class State {
    kOpen,      // more is to come
    kFinished,  // the model said all; figures may follow
    kDone,      // the end of the stream was announced
    kCut,       // the answer stands, cut by a white-space loop; the rest is not wanted
    kFailed,    // error() says why; the rest is not wanted
  };

  explicit ChatAccumulator(const AnswerLimits& limits) : limits_(limits) {}

  // One event's data: an object of the stream, or "[DONE]". After kDone, kCut and kFailed nothing
  // is looked at.
  State OnEvent(std::string_view data);
  // A whole chat.completion object.
  State OnWhole(std::string_view json);

  State state() const { return state_; }
  // Content, reasoning or a tool call has come.
  bool has_token() const { return has_token_; }
  // Of kFailed.
  const ChatError& error() const { return error_; }
  ChatAnswer TakeAnswer();

 private:
  struct Run {
    int length = 0;
  };

  // Reads parsed JSON; kept from the header for the sake of who includes it.
  class Reader;

  // Appends within the limits; false: cut or failed.
  bool Append(std::string& to, std::string_view text, Run& run);
  void Fail(ErrorKind kind, std::string_view message);

  const AnswerLimits limits_;
  State state_ = State::kOpen;
  ChatError error_;
  ChatAnswer answer_;
  int64_t bytes_ = 0;
  bool has_token_ = false;
  Run content_run_;
  Run reasoning_run_;
  // Beside answer_.tool_calls: the index that the endpoint gave each, and its run of blanks.
  struct OpenCall {
    int64_t index = 0;
    Run run;
  };
  std::vector<OpenCall> open_calls_;
};

}  // namespace kernelcast::llm

#endif  // KERNELCAST_COMMON_LLM_CHAT_ACCUMULATOR_H_
