#ifndef KERNELCAST_COMMON_RPC_STATUS_CONVERSION_H_
#define KERNELCAST_COMMON_RPC_STATUS_CONVERSION_H_

#include <grpcpp/grpcpp.h>

#include <optional>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace kernelcast {

// The two status types share their numbers but do not convert by themselves. Messages are cut at
// 4 KiB and made valid UTF-8.
grpc::Status ToGrpc(const absl::Status& status);
absl::Status FromGrpc(const grpc::Status& status);
// The same for a call that has ended, with the server's retry hint, if it sent one.
absl::Status FromGrpc(const grpc::Status& status, const grpc::ClientContext& context);

// A RESOURCE_EXHAUSTED status that says when to come back. The hint is the status's payload
// "kernelcast.v1/retry-after-ms", in whole milliseconds, rounded up; RetryAfter reads it.
absl::Status OverloadedError(std::string_view message, absl::Duration retry_after);
std::optional<absl::Duration> RetryAfter(const absl::Status& status);

// As ToGrpc; a retry hint goes into the trailing metadata `retry-after-ms`.
grpc::Status FinishStatus(grpc::CallbackServerContext* context, const absl::Status& status);

// What remains of the caller's deadline, at least zero; infinite where there is none.
absl::Duration RemainingTime(const grpc::ServerContextBase& context);

// Ends the call after `timeout`, however long; infinite: no deadline.
void SetTimeout(grpc::ClientContext& context, absl::Duration timeout);

// What to end a call with whose client has left: DEADLINE_EXCEEDED when its deadline has passed,
// else CANCELLED.
absl::Status CancellationStatus(const grpc::ServerContextBase& context);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_RPC_STATUS_CONVERSION_H_
