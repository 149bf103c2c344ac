#ifndef KERNELCAST_COMMON_CONVERT_BATCH_PROTOCOLS_H_
#define KERNELCAST_COMMON_CONVERT_BATCH_PROTOCOLS_H_

#include <cstddef>

#include "absl/time/time.h"
#include "kernelcast/v1/forecaster.pb.h"
#include "kernelcast/v1/orchestrator.pb.h"
#include "kernelcast/v1/worker.pb.h"

namespace kernelcast {

namespace rpc_internal {

// A message with requests and an optional time_left.
template <class Message>
struct BatchOf {
  static size_t Requests(const Message& message) {
    return static_cast<size_t>(message.requests_size());
  }
  static auto* Add(Message& message) { return message.add_requests(); }
  static void SetTimeLeft(Message& message, absl::Duration time_left) {
    if (time_left == absl::InfiniteDuration()) return;
    auto* const proto = message.mutable_time_left();
    proto->set_seconds(absl::IDivDuration(time_left, absl::Seconds(1), &time_left));
    proto->set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(time_left)));
  }
  // Infinite if it is not set.
  static absl::Duration TimeLeft(const Message& message) {
    if (!message.has_time_left()) return absl::InfiniteDuration();
    return absl::Seconds(message.time_left().seconds()) +
           absl::Nanoseconds(message.time_left().nanos());
  }
};

}  // namespace rpc_internal

// Worker.CompileStream, for BatchStream and BatchCaller.
struct CompileBatches : rpc_internal::BatchOf<v1::CompileStreamRequest> {
  using Request = v1::CompileStreamRequest;
  using Response = v1::CompileStreamReply;
  using Entry = v1::CompileRequest;
  using Answer = v1::CompileStreamResult;
  using BatchOf::Add;
  static Answer* Add(Response& message) { return message.add_results(); }
  static int Answers(const Response& message) { return message.results_size(); }
  static Answer* MutableAnswer(Response& message, int i) { return message.mutable_results(i); }
};

// Forecaster.ForecastBatches.
struct ForecastBatches : rpc_internal::BatchOf<v1::ForecastBatch> {
  using Request = v1::ForecastBatch;
  using Response = v1::ForecastBatchReply;
  using Entry = v1::ForecastRequest;
  using Answer = v1::ForecastReply;
  using BatchOf::Add;
  static Answer* Add(Response& message) { return message.add_replies(); }
  static int Answers(const Response& message) { return message.replies_size(); }
  static Answer* MutableAnswer(Response& message, int i) { return message.mutable_replies(i); }
};

// Orchestrator.EvaluateBatches.
struct EvaluateBatches : rpc_internal::BatchOf<v1::EvaluateBatch> {
  using Request = v1::EvaluateBatch;
  using Response = v1::EvaluateBatchReply;
  using Answer = v1::EvaluateReply;
  using BatchOf::Add;
  static Answer* Add(Response& message) { return message.add_replies(); }
};

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_CONVERT_BATCH_PROTOCOLS_H_
