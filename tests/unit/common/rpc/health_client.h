#ifndef KERNELCAST_TESTS_UNIT_COMMON_RPC_HEALTH_CLIENT_H_
#define KERNELCAST_TESTS_UNIT_COMMON_RPC_HEALTH_CLIENT_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace kernelcast {

// Queries `service`, which may be "", at a server's grpc.health.v1.Health. OK if it is serving,
// UNAVAILABLE if it is not serving or unreachable, NOT_FOUND if the server does not know the
// service, DEADLINE_EXCEEDED after `timeout`, or the call's error.
[[nodiscard]] absl::Status CheckHealthBlocking(const std::shared_ptr<grpc::Channel>& channel,
                                               const std::string& service, absl::Duration timeout);
// Polls until the server is serving. After `timeout` it returns DEADLINE_EXCEEDED with the last
// status in the message.
[[nodiscard]] absl::Status WaitUntilServing(const std::shared_ptr<grpc::Channel>& channel,
                                            const std::string& service, absl::Duration timeout);

}  // namespace kernelcast

#endif  // KERNELCAST_TESTS_UNIT_COMMON_RPC_HEALTH_CLIENT_H_
