#ifndef KERNELCAST_COMMON_RPC_STATUS_CONVERSION_H_
#define KERNELCAST_COMMON_RPC_STATUS_CONVERSION_H_

#include <grpcpp/grpcpp.h>

#include <optional>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace kernelcast {

// Converts between the two status types, which share their code numbers. Messages are cut at 4 KiB
// and made valid UTF-8.
grpc::Status ToGrpc(const absl::Status& status);
absl::Status FromGrpc(const grpc::Status& status);
// The same for a finished call, including information in the server's trailing metadata: the retry
// hint and whether the call was started.
absl::Status FromGrpc(const grpc::Status& status, const grpc::ClientContext& context);

// A RESOURCE_EXHAUSTED status with a retry delay. The delay is stored in the payload
// "kernelcast.v1/retry-after-ms", in whole milliseconds, rounded up, and read by RetryAfter, which
// clamps it to [0, kLongestRetryAfter].
inline constexpr absl::Duration kLongestRetryAfter = absl::Minutes(1);
absl::Status OverloadedError(std::string_view message, absl::Duration retry_after);
std::optional<absl::Duration> RetryAfter(const absl::Status& status);

// An UNAVAILABLE status for a request that was not started: the client may retry at another server
// at once, and it does not count against either server. The payload is "kernelcast.v1/not-started".
absl::Status NotStartedError(std::string_view message);
bool IsNotStarted(const absl::Status& status);

// Like ToGrpc, but also copies the payloads to the trailing metadata `retry-after-ms` and
// `not-started`.
grpc::Status FinishStatus(grpc::CallbackServerContext* context, const absl::Status& status);

// Time until the caller's deadline, at least zero. Infinite if there is none.
absl::Duration RemainingTime(const grpc::ServerContextBase& context);

// Sets the deadline to now plus `timeout`. Infinite: no deadline.
void SetTimeout(grpc::ClientContext& context, absl::Duration timeout);

// Status for a call whose client is gone: DEADLINE_EXCEEDED if its deadline has passed, otherwise
// CANCELLED.
absl::Status CancellationStatus(const grpc::ServerContextBase& context);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_RPC_STATUS_CONVERSION_H_
