#ifndef KERNELCAST_SERVICES_CLI_RPC_EVALUATE_STREAM_H_
#define KERNELCAST_SERVICES_CLI_RPC_EVALUATE_STREAM_H_

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "kernelcast/v1/orchestrator.grpc.pb.h"

namespace kernelcast::cli {

struct EvaluateOptions {
  // Maximum number of unanswered requests.
  size_t max_in_flight = 64;
  // Gives up after this long without an answer while the connection is lost.
  absl::Duration give_up_after = absl::Minutes(2);
  // Polled frequently; true ends the stream with CANCELLED.
  std::function<bool()> cancelled;
  std::function<absl::StatusOr<std::shared_ptr<grpc::Channel>>()> reconnect;
  // Called with a message when the connection is lost, and with "" when it is back.
  std::function<void(const std::string&)> on_trouble;
};

// Evaluates requests with distinct ids over EvaluateStream. Requests that the server is too busy
// for are sent again after the pause that it requests. A broken stream is opened again, and
// unsettled requests are sent again with the same ids. Calls `on_reply` once per request, on this
// thread, with an evaluation or a permanent error.
[[nodiscard]] absl::Status EvaluateAll(
    const std::vector<v1::EvaluateRequest>& requests, const EvaluateOptions& options,
    const std::function<void(const v1::EvaluateReply&)>& on_reply);

// As EvaluateAll, for requests that `next` makes when there is room for them, until it returns
// none. It is called on another thread than `on_reply`, at the same time.
using EvaluateSource = std::function<std::optional<v1::EvaluateRequest>()>;
[[nodiscard]] absl::Status EvaluateEach(
    const EvaluateSource& next, const EvaluateOptions& options,
    const std::function<void(const v1::EvaluateReply&)>& on_reply);

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_RPC_EVALUATE_STREAM_H_
