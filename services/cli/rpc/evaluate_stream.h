#ifndef KERNELCAST_SERVICES_CLI_RPC_EVALUATE_STREAM_H_
#define KERNELCAST_SERVICES_CLI_RPC_EVALUATE_STREAM_H_

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "kernelcast/v1/orchestrator.grpc.pb.h"

namespace kernelcast::cli {

struct EvaluateOptions {
  // Requests sent and not answered at once.
  size_t max_in_flight = 64;
  // Without an answer for this long while the connection is lost, it is given up.
  absl::Duration give_up_after = absl::Minutes(2);
  // Asked often; true ends the stream with CANCELLED.
  std::function<bool()> cancelled;
  std::function<absl::StatusOr<std::shared_ptr<grpc::Channel>>()> reconnect;
  // Told when the connection is lost and when it is back ("").
  std::function<void(const std::string&)> on_trouble;
};

// Evaluates requests, whose ids are distinct, over EvaluateStream. Requests that the server is too
// busy for are sent again after the pause that it asks for; a stream that breaks is opened again,
// and what was not settled is sent again under the same ids. `on_reply` is called once a request,
// on this thread, with an evaluation or with an error that no retry mends.
[[nodiscard]] absl::Status EvaluateAll(
    const std::vector<v1::EvaluateRequest>& requests, const EvaluateOptions& options,
    const std::function<void(const v1::EvaluateReply&)>& on_reply);

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_RPC_EVALUATE_STREAM_H_
