#ifndef KERNELCAST_COMMON_LLM_SSE_DECODER_H_
#define KERNELCAST_COMMON_LLM_SSE_DECODER_H_

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace kernelcast::llm {

// Server-sent events from bytes that come in any pieces: lines end in LF, CRLF or CR, several data
// lines are joined by LF, comments and other fields are passed over, as is a byte order mark. Never
// holds more than `max_event_bytes` and one line's field name. Not thread-safe.
class SseDecoder {
 public:
  enum class Result {
    kMore,
    kStopped,  // the sink returned false; what follows is ignored
    kTooLong,  // an event has more than max_event_bytes; what follows is ignored
  };
  // The data of one event, valid during the call. False: no more is wanted.
  using Sink = std::function<bool(std::string_view data)>;

  explicit SseDecoder(size_t max_event_bytes) : max_event_bytes_(max_event_bytes) {}

  Result Feed(std::string_view bytes, const Sink& sink);
  // The stream has ended: gives what came of an event that lacks its empty line.
  Result Finish(const Sink& sink);

 private:
  Result OnLine(std::string_view line, const Sink& sink);
  Result Dispatch(const Sink& sink);
  Result End(Result result);

  const size_t max_event_bytes_;
  std::string line_;  // the part of a line that has come
  std::string data_;
  bool has_data_ = false;
  bool at_start_ = true;   // no line has been seen
  bool after_cr_ = false;  // an LF that comes next belongs to the CR before it
  Result ended_ = Result::kMore;
};

}  // namespace kernelcast::llm

#endif  // KERNELCAST_COMMON_LLM_SSE_DECODER_H_
