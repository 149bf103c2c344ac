#ifndef KERNELCAST_COMMON_RPC_CLIENT_TOKEN_H_
#define KERNELCAST_COMMON_RPC_CLIENT_TOKEN_H_

#include <grpcpp/support/client_interceptor.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace kernelcast {

// What a channel is given so that its calls carry the bearer token of a file. A token that is
// replaced counts for calls that begin `reload_interval` later; while the file cannot be used, the
// token that it had is sent. INVALID_ARGUMENT: see ReadToken.
[[nodiscard]] absl::StatusOr<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>>
MakeTokenSender(const std::string& token_file, absl::Duration reload_interval);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_RPC_CLIENT_TOKEN_H_
