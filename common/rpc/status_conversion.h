#ifndef KERNELCAST_COMMON_RPC_STATUS_CONVERSION_H_
#define KERNELCAST_COMMON_RPC_STATUS_CONVERSION_H_

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace kernelcast {

// The two status types share their numbers but do not convert by themselves. Messages are cut at
// 4 KiB and made valid UTF-8.
grpc::Status ToGrpc(const absl::Status& status);
absl::Status FromGrpc(const grpc::Status& status);

// A RESOURCE_EXHAUSTED status that says when to come back, and where to find that in the payload.
absl::Status OverloadedError(std::string_view message, absl::Duration retry_after);
std::optional<absl::Duration> RetryAfter(const absl::Status& status);

// As ToGrpc; a retry hint goes into the trailing metadata `retry-after-ms`.
grpc::Status FinishStatus(grpc::CallbackServerContext* context, const absl::Status& status);

// What remains of the caller's deadline; infinite where there is none.
absl::Duration RemainingTime(const grpc::ServerContextBase& context);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_RPC_STATUS_CONVERSION_H_
