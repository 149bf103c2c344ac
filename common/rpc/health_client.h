#ifndef KERNELCAST_COMMON_RPC_HEALTH_CLIENT_H_
#define KERNELCAST_COMMON_RPC_HEALTH_CLIENT_H_

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace kernelcast {

// Asks a server's grpc.health.v1.Health about `service`, which may be "". `done` gets OK when it is
// serving, UNAVAILABLE when it is not or cannot be reached, NOT_FOUND when the server does not know
// the service, DEADLINE_EXCEEDED after `timeout`, or the call's error. It runs once, on a gRPC
// thread, and must not block.
void CheckHealth(const std::shared_ptr<grpc::Channel>& channel, const std::string& service,
                 absl::Duration timeout, std::function<void(const absl::Status&)> done);

// The same, blocking; the second asks until the server serves or `timeout` has passed, which is
// DEADLINE_EXCEEDED with the last answer in its message.
[[nodiscard]] absl::Status CheckHealthBlocking(const std::shared_ptr<grpc::Channel>& channel,
                                               const std::string& service, absl::Duration timeout);
[[nodiscard]] absl::Status WaitUntilServing(const std::shared_ptr<grpc::Channel>& channel,
                                            const std::string& service, absl::Duration timeout);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_RPC_HEALTH_CLIENT_H_
