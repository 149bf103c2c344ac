#ifndef KERNELCAST_COMMON_RPC_CREDENTIALS_H_
#define KERNELCAST_COMMON_RPC_CREDENTIALS_H_

#include <grpcpp/grpcpp.h>

#include <memory>

#include "absl/status/statusor.h"
#include "common/rpc/server.h"

namespace kernelcast {

// Credentials that follow changes of their files. Without TLS: insecure ones. INVALID_ARGUMENT
// names the file that is missing, cannot be read or is not what it should be, or a key that is not
// the certificate's.
[[nodiscard]] absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakeServerCredentials(
    const TlsOptions& tls);
[[nodiscard]] absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeChannelCredentials(
    const TlsOptions& tls);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_RPC_CREDENTIALS_H_
