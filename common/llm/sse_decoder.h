#ifndef KERNELCAST_COMMON_LLM_SSE_DECODER_H_
#define KERNELCAST_COMMON_LLM_SSE_DECODER_H_

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace kernelcast::llm {

// Decodes server-sent events from bytes in pieces of any size. Lines end in LF, CRLF or CR. Several
// data lines are joined by LF. The field "error" counts as data. Comments, other fields and a byte
// order mark are skipped. Buffers at most `max_event_bytes` plus the field name of one line. Not
// thread-safe.
class SseDecoder {
 public:
  enum class Result {
    kMore,
    kStopped,  // the sink returned false; further input is ignored
    kTooLong,  // an event exceeds max_event_bytes; further input is ignored
  };
  // Receives the data of one event, valid during the call. Returns false to stop.
  using Sink = std::function<bool(std::string_view data)>;

  explicit SseDecoder(size_t max_event_bytes) : max_event_bytes_(max_event_bytes) {}

  Result Feed(std::string_view bytes, const Sink& sink);
  // Call at the end of the stream. Delivers a last event that lacks its empty line.
  Result Finish(const Sink& sink);

 private:
  Result OnLine(std::string_view line, const Sink& sink);
  Result Dispatch(const Sink& sink);
  Result End(Result result);

  const size_t max_event_bytes_;
  std::string line_;  // incomplete line
  std::string data_;
  bool has_data_ = false;
  bool at_start_ = true;   // no line seen yet
  bool after_cr_ = false;  // an LF that comes next belongs to the preceding CR
  Result ended_ = Result::kMore;
};

}  // namespace kernelcast::llm

#endif  // KERNELCAST_COMMON_LLM_SSE_DECODER_H_
