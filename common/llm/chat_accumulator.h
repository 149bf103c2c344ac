#ifndef KERNELCAST_COMMON_LLM_CHAT_ACCUMULATOR_H_
#define KERNELCAST_COMMON_LLM_CHAT_ACCUMULATOR_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/llm/chat.h"

namespace kernelcast::llm {

struct AnswerLimits {
  // Content, reasoning and tool calls together.
  int64_t max_answer_bytes = 1 << 20;
  int max_whitespace_run = 64;  // 0: no limit
};

// Assembles an answer from the objects of a stream, or from the single object of an endpoint that
// does not stream. Uses only the first choice. Not thread-safe.
class ChatAccumulator {
 public:
  enum class State {
    kOpen,      // more is expected
    kFinished,  // the answer is complete; usage may follow
    kDone,      // the end of the stream was announced
    kCut,     // cut at a white-space loop; the answer so far is valid and further input is ignored
    kFailed,  // failed: see error(); further input is ignored
  };

  explicit ChatAccumulator(const AnswerLimits& limits) : limits_(limits) {}

  // Takes the data of one event: an object of the stream, or "[DONE]". Ignored after kDone, kCut
  // and kFailed.
  State OnEvent(std::string_view data);
  // Takes a complete response that is no stream: a chat.completion object, or the objects of a
  // stream in a list or one on each line.
  State OnWhole(std::string_view json);

  State state() const { return state_; }
  // Whether content, reasoning or a tool call has arrived.
  bool has_token() const { return has_token_; }
  // Set in state kFailed.
  const ChatError& error() const { return error_; }
  // What arrived, with reasoning apart from the content.
  ChatAnswer TakeAnswer();

 private:
  struct Run {
    int length = 0;
  };

  // Follows pieces of JSON up to the end of its value.
  class JsonEnd {
   public:
    void Read(std::string_view text);
    bool complete() const { return begun_ && depth_ <= 0 && !in_string_; }

   private:
    int depth_ = 0;
    bool begun_ = false;
    bool in_string_ = false;
    bool escaped_ = false;
  };

  // Reads parsed JSON. Declared here only, to keep the JSON library out of this header.
  class Reader;

  // Takes one object from each line. Returns false if they are no such lines.
  bool OnLines(std::string_view json);
  // Appends within the limits. Returns false if the answer was cut or failed.
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
  // Parallel to answer_.tool_calls: the index that the endpoint gave each, its current run of white
  // space, and whether its arguments are complete.
  struct OpenCall {
    int64_t index = 0;
    Run run;
    JsonEnd end;
  };
  std::vector<OpenCall> open_calls_;
};

}  // namespace kernelcast::llm

#endif  // KERNELCAST_COMMON_LLM_CHAT_ACCUMULATOR_H_
