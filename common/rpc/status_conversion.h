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
// The same for a call that has ended, with what the server's trailing metadata say: its retry hint,
// and whether it began.
absl::Status FromGrpc(const grpc::Status& status, const grpc::ClientContext& context);

// A RESOURCE_EXHAUSTED status that says when to come back. The hint is the status's payload
// "kernelcast.v1/retry-after-ms", in whole milliseconds, rounded up; RetryAfter reads it.
absl::Status OverloadedError(std::string_view message, absl::Duration retry_after);
std::optional<absl::Duration> RetryAfter(const absl::Status& status);

// An UNAVAILABLE status that says that nothing of the request was done: another server may be asked
// at once, and it tells nothing against either. The payload is "kernelcast.v1/not-started".
absl::Status NotStartedError(std::string_view message);
bool IsNotStarted(const absl::Status& status);

// As ToGrpc; the payloads go into the trailing metadata `retry-after-ms` and `not-started`.
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
