#include "common/llm/response_reader.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/strings.h"
#include "common/llm/error_object.h"
#include "common/llm/json_text.h"
#include "common/llm/retry_policy.h"

namespace kernelcast::llm {
namespace {

constexpr size_t kMaxErrorBodyBytes = 64 << 10;
constexpr size_t kMaxRefusalBytes = 500;
constexpr size_t kShownBytes = 120;
constexpr std::string_view kBodyByteOrderMark = "\xEF\xBB\xBF";
constexpr std::string_view kGzipMark = "\x1F\x8B";
// Maximum growth of a byte of text in JSON ("\u00e9" encodes two bytes), and size of the object
// around an answer.
constexpr int64_t kEscapedBytes = 3;
constexpr int64_t kEnvelopeBytes = 64 << 10;

bool NameIs(std::string_view name, std::string_view wanted) {
  return absl::EqualsIgnoreCase(AbslView(name), AbslView(wanted));
}

}  // namespace

ResponseReader::ResponseReader(const AnswerLimits& limits, int64_t wall_ns)
    : limits_(limits),
      wall_ns_(wall_ns),
      max_event_bytes_(
          static_cast<size_t>(limits.max_answer_bytes * kEscapedBytes + kEnvelopeBytes)),
      decoder_(max_event_bytes_),
      accumulator_(limits) {}

void ResponseReader::OnStatus(int http_status) {
  // Interim responses (100, 103) and those of a proxy come before the final one.
  http_status_ = http_status;
  retry_after_ns_ = 0;
  retry_is_useless_ = false;
}

void ResponseReader::OnHeader(std::string_view name, std::string_view value) {
  if (NameIs(name, "retry-after")) {
    // retry-after-ms is more exact and takes precedence.
    const std::optional<int64_t> wait = ParseRetryAfter(value, wall_ns_);
    if (retry_after_ns_ == 0) retry_after_ns_ = wait.value_or(0);
  } else if (NameIs(name, "retry-after-ms")) {
    const std::optional<int64_t> wait = ParseRetryAfter(value, wall_ns_);
    if (wait.has_value()) retry_after_ns_ = *wait / 1000;
  } else if (NameIs(name, "x-should-retry")) {
    retry_is_useless_ = NameIs(value, "false");
  }
}

bool ResponseReader::OnBody(std::string_view bytes) {
  if (ended_) return false;
  if (body_ == Body::kUnknown) {
    if (http_status_ >= 300) {
      body_ = Body::kError;
    } else {
      // Detected by content, because servers send wrong content types: events never begin with a
      // bracket.
      if (bytes.starts_with(kBodyByteOrderMark)) bytes.remove_prefix(kBodyByteOrderMark.size());
      const size_t first = bytes.find_first_not_of(" \t\r\n");
      if (first == std::string_view::npos) return true;
      bytes.remove_prefix(first);
      body_ = bytes.front() == '{' || bytes.front() == '[' ? Body::kJson : Body::kEvents;
      if (bytes.front() == '<') {
        Fail(ErrorKind::kMalformed,
             absl::StrCat("the endpoint sent a web page, not an answer; check its URL: ",
                          OneLine(bytes, kShownBytes)));
        return false;
      }
      if (bytes.starts_with(kGzipMark)) {
        Fail(ErrorKind::kMalformed,
             "the endpoint sent compressed data without saying so in Content-Encoding");
        return false;
      }
    }
  }
  switch (body_) {
    case Body::kEvents: {
      if (buffer_.size() < kShownBytes) buffer_.append(bytes.substr(0, kShownBytes));
      return OnEvents(decoder_.Feed(bytes, [this](std::string_view data) {
        any_event_ = true;
        const ChatAccumulator::State state = accumulator_.OnEvent(data);
        return state == ChatAccumulator::State::kOpen || state == ChatAccumulator::State::kFinished;
      }));
    }
    case Body::kJson:
      if (buffer_.size() + bytes.size() > max_event_bytes_) {
        Fail(ErrorKind::kAnswerTooLarge,
             absl::StrCat("the answer has more than ", limits_.max_answer_bytes, " bytes"));
        return false;
      }
      buffer_.append(bytes);
      return true;
    case Body::kError:
      buffer_.append(bytes.substr(0, kMaxErrorBodyBytes - buffer_.size()));
      if (buffer_.size() < kMaxErrorBodyBytes) return true;
      ReadErrorBody();
      return false;
    case Body::kUnknown: break;
  }
  return true;
}

void ResponseReader::OnEnd(TransferEnd end, std::string_view message) {
  if (ended_) return;
  if (http_status_ >= 300) return ReadErrorBody();
  if (end == TransferEnd::kUnreachable || end == TransferEnd::kConnectTimeout) {
    return Fail(
        end == TransferEnd::kUnreachable ? ErrorKind::kUnreachable : ErrorKind::kConnectTimeout,
        std::string(message));
  }
  if (body_ == Body::kEvents) {
    const auto sink = [this](std::string_view data) {
      any_event_ = true;
      accumulator_.OnEvent(data);
      return true;
    };
    // An incomplete event at the end of a lost connection is dropped.
    if (end == TransferEnd::kFinished) OnEvents(decoder_.Finish(sink));
    if (ended_) return;
    using State = ChatAccumulator::State;
    if (accumulator_.state() == State::kFinished || accumulator_.state() == State::kDone) {
      return End();
    }
    if (accumulator_.state() == State::kCut) return End();
    if (accumulator_.state() == State::kFailed) {
      error_ = accumulator_.error();
      return Fail(error_.kind, error_.message);
    }
  }
  if (end == TransferEnd::kNotHttp) return Fail(ErrorKind::kMalformed, message);
  if (end != TransferEnd::kFinished) return Fail(ErrorKind::kCutOff, message);
  if (body_ == Body::kJson) {
    if (accumulator_.OnWhole(buffer_) == ChatAccumulator::State::kFailed) {
      const ChatError& error = accumulator_.error();
      error_.code = error.code;
      return Fail(error.kind, error.message);
    }
    return End();
  }
  if (body_ == Body::kUnknown) return Fail(ErrorKind::kMalformed, "the answer is empty");
  if (!any_event_) {
    return Fail(ErrorKind::kMalformed,
                absl::StrCat("the answer is neither JSON nor a stream of events: ",
                             OneLine(buffer_, kShownBytes)));
  }
  Fail(ErrorKind::kCutOff, "the stream ended before the answer did");
}

bool ResponseReader::OnEvents(SseDecoder::Result result) {
  switch (accumulator_.state()) {
    case ChatAccumulator::State::kDone:
      may_drain_ = true;
      End();
      return false;
    case ChatAccumulator::State::kCut: End(); return false;
    case ChatAccumulator::State::kFailed: {
      const ChatError& error = accumulator_.error();
      error_.code = error.code;
      Fail(error.kind, error.message);
      return false;
    }
    default: break;
  }
  if (result == SseDecoder::Result::kTooLong) {
    Fail(ErrorKind::kAnswerTooLarge,
         absl::StrCat("an event has more than ", max_event_bytes_, " bytes"));
    return false;
  }
  return true;
}

void ResponseReader::ReadErrorBody() {
  ChatError error = ReadErrorObject(ParseJson(buffer_), http_status_, buffer_);
  if (http_status_ < 400) error.message = "redirects are not followed";
  error_.code = error.code;
  const bool has_text = !buffer_.empty() || http_status_ < 400;
  Fail(error.kind,
       absl::StrCat("HTTP ", http_status_, has_text ? ": " : "", has_text ? error.message : ""));
}

void ResponseReader::Fail(ErrorKind kind, std::string_view message) {
  error_.kind = kind;
  error_.message = OneLine(message, kMaxRefusalBytes);
  error_.http_status = http_status_;
  error_.retry_after_ns = retry_after_ns_;
  std::string().swap(buffer_);
  End();
}

}  // namespace kernelcast::llm
