#ifndef KERNELCAST_COMMON_CONVERT_BATCH_PROTOCOLS_H_
#define KERNELCAST_COMMON_CONVERT_BATCH_PROTOCOLS_H_

#include <cstddef>
#include <type_traits>
#include <utility>

#include "absl/time/time.h"
#include "kernelcast/v1/forecaster.pb.h"
#include "kernelcast/v1/orchestrator.pb.h"
#include "kernelcast/v1/worker.pb.h"

namespace kernelcast {

// The messages of a stream, for BatchStream and BatchCaller: `RequestMessage` has requests and may
// have time_left, `ReplyMessage` has replies.
template <class RequestMessage, class ReplyMessage>
struct BatchProtocol {
  using Request = RequestMessage;
  using Response = ReplyMessage;
  using Entry = std::remove_cvref_t<decltype(std::declval<Request>().requests(0))>;
  using Answer = std::remove_cvref_t<decltype(std::declval<Response>().replies(0))>;

  static size_t Requests(const Request& message) {
    return static_cast<size_t>(message.requests_size());
  }
  static Entry* Add(Request& message) { return message.add_requests(); }
  static void SetTimeLeft(Request& message, absl::Duration time_left) {
    if (time_left == absl::InfiniteDuration()) return;
    auto* const proto = message.mutable_time_left();
    proto->set_seconds(absl::IDivDuration(time_left, absl::Seconds(1), &time_left));
    proto->set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(time_left)));
  }
  // Infinite if it is not set.
  static absl::Duration TimeLeft(const Request& message) {
    if (!message.has_time_left()) return absl::InfiniteDuration();
    return absl::Seconds(message.time_left().seconds()) +
           absl::Nanoseconds(message.time_left().nanos());
  }

  static Answer* Add(Response& message) { return message.add_replies(); }
  static int Answers(const Response& message) { return message.replies_size(); }
  static Answer* MutableAnswer(Response& message, int i) { return message.mutable_replies(i); }
};

using CompileBatches = BatchProtocol<v1::CompileStreamRequest, v1::CompileStreamReply>;
using ForecastBatches = BatchProtocol<v1::ForecastStreamRequest, v1::ForecastStreamReply>;
using EvaluateBatches = BatchProtocol<v1::EvaluateStreamRequest, v1::EvaluateStreamReply>;

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_CONVERT_BATCH_PROTOCOLS_H_
