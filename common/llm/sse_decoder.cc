#include "common/llm/sse_decoder.h"

namespace kernelcast::llm {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
// Room for "data: " before the longest event allowed.
constexpr size_t kFieldNameBytes = 16;

// Same as find_first_of("\r\n"), but as fast as memchr.
size_t FindLineEnd(std::string_view bytes) {
  const size_t lf = bytes.find('\n');
  const size_t cr = bytes.substr(0, lf).find('\r');
  return cr != std::string_view::npos ? cr : lf;
}

}  // namespace

SseDecoder::Result SseDecoder::Feed(std::string_view bytes, const Sink& sink) {
  while (ended_ == Result::kMore && !bytes.empty()) {
    if (after_cr_) {
      after_cr_ = false;
      if (bytes.front() == '\n') {
        bytes.remove_prefix(1);
        continue;
      }
    }
    const size_t end = FindLineEnd(bytes);
    const std::string_view part = bytes.substr(0, end);
    if (line_.size() + part.size() > max_event_bytes_ + kFieldNameBytes) {
      return End(Result::kTooLong);
    }
    if (end == std::string_view::npos) {
      line_.append(part);
      return Result::kMore;
    }
    after_cr_ = bytes[end] == '\r';
    bytes.remove_prefix(end + 1);
    if (line_.empty()) {
      OnLine(part, sink);
    } else {
      line_.append(part);
      OnLine(line_, sink);
      line_.clear();
    }
  }
  return ended_;
}

SseDecoder::Result SseDecoder::Finish(const Sink& sink) {
  if (ended_ != Result::kMore) return ended_;
  if (!line_.empty() && OnLine(line_, sink) != Result::kMore) return ended_;
  line_.clear();
  return Dispatch(sink);
}

SseDecoder::Result SseDecoder::OnLine(std::string_view line, const Sink& sink) {
  if (at_start_) {
    at_start_ = false;
    if (line.starts_with(kByteOrderMark)) line.remove_prefix(kByteOrderMark.size());
  }
  if (line.empty()) return Dispatch(sink);
  const size_t colon = line.find(':');
  const std::string_view field = line.substr(0, colon);
  // Some versions of llama.cpp send an error as a field of its own.
  if (field != "data" && field != "error") return Result::kMore;
  std::string_view value = colon == std::string_view::npos ? "" : line.substr(colon + 1);
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (data_.size() + value.size() + 1 > max_event_bytes_) return End(Result::kTooLong);
  if (has_data_) data_.push_back('\n');
  has_data_ = true;
  data_.append(value);
  return Result::kMore;
}

SseDecoder::Result SseDecoder::Dispatch(const Sink& sink) {
  if (!has_data_) return Result::kMore;
  has_data_ = false;
  const bool more = sink(data_);
  data_.clear();
  return more ? Result::kMore : End(Result::kStopped);
}

SseDecoder::Result SseDecoder::End(Result result) {
  std::string().swap(line_);
  std::string().swap(data_);
  return ended_ = result;
}

}  // namespace kernelcast::llm
