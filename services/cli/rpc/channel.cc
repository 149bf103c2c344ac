#include "services/cli/rpc/channel.h"

#include <chrono>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/base/trace_context.h"

namespace kernelcast::cli {
namespace {

// Build systems and schedulers pass their trace to children in the environment.
TraceContext TraceFromEnvironment() {
  const char* const traceparent = std::getenv("TRACEPARENT");
  if (traceparent == nullptr) return {};
  const char* const tracestate = std::getenv("TRACESTATE");
  return ParseTraceparent(traceparent, tracestate != nullptr ? tracestate : "")
      .value_or(TraceContext());
}

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::Channel>> Connect(const std::string& service,
                                                       const std::string& address,
                                                       const ChannelOptions& options,
                                                       absl::Duration patience) {
  ChannelOptions traced = options;
  traced.trace = TraceFromEnvironment();
  KC_ASSIGN_OR_RETURN(std::shared_ptr<grpc::Channel> channel, MakeChannel(address, traced));
  const auto deadline = std::chrono::system_clock::now() +
                        std::chrono::microseconds(absl::ToInt64Microseconds(patience));
  if (!channel->WaitForConnected(deadline)) {
    return absl::UnavailableError(absl::StrCat("cannot reach the ", service, " at ", address,
                                               " within ", absl::FormatDuration(patience),
                                               "; is it running?"));
  }
  return channel;
}

bool IsTransient(const absl::Status& status) {
  return status.code() == absl::StatusCode::kUnavailable ||
         status.code() == absl::StatusCode::kResourceExhausted ||
         status.code() == absl::StatusCode::kCancelled;
}

}  // namespace kernelcast::cli
