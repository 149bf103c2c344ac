#ifndef KERNELCAST_COMMON_RPC_CLIENT_TOKEN_H_
#define KERNELCAST_COMMON_RPC_CLIENT_TOKEN_H_

#include <grpcpp/support/client_interceptor.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace kernelcast {

// Returns a channel interceptor that sends the bearer token in a file with every call. A replaced
// token is used within `reload_interval`. While the file is unusable, the previous token is sent.
// INVALID_ARGUMENT: see ReadToken.
[[nodiscard]] absl::StatusOr<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>>
MakeTokenSender(const std::string& token_file, absl::Duration reload_interval);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_RPC_CLIENT_TOKEN_H_
