#ifndef KERNELCAST_COMMON_RPC_CREDENTIALS_H_
#define KERNELCAST_COMMON_RPC_CREDENTIALS_H_

#include <grpcpp/grpcpp.h>

#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/rpc/server.h"

namespace kernelcast {

// Reads all files that are given and checks that they can be used together. Returns when the first
// certificate of the chain expires; infinite without one. INVALID_ARGUMENT as below.
[[nodiscard]] absl::StatusOr<absl::Time> CheckTlsFiles(const TlsOptions& tls);

// Credentials that follow changes of their files. Without TLS: insecure ones. A server's ask
// `check`, if it is given, about every call before anything of its payload is read.
// INVALID_ARGUMENT names the file that is missing, cannot be read or is not what it should be, or a
// key that is not the certificate's.
[[nodiscard]] absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakeServerCredentials(
    const TlsOptions& tls, const std::shared_ptr<grpc::AuthMetadataProcessor>& check = nullptr);
[[nodiscard]] absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeChannelCredentials(
    const TlsOptions& tls);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_RPC_CREDENTIALS_H_
