#ifndef KERNELCAST_COMMON_RPC_CREDENTIALS_H_
#define KERNELCAST_COMMON_RPC_CREDENTIALS_H_

#include <grpcpp/grpcpp.h>

#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/rpc/server.h"

namespace kernelcast {

// Reads all configured files and checks that they fit together. Returns the expiry time of the
// first certificate in the chain, or infinity without one. INVALID_ARGUMENT as below.
[[nodiscard]] absl::StatusOr<absl::Time> CheckTlsFiles(const TlsOptions& tls);

// Credentials that follow changes of their files; insecure without TLS. Server credentials run
// `check`, if given, on every call before reading its payload. INVALID_ARGUMENT names the file that
// is missing, unreadable or invalid, or the key that does not match the certificate.
[[nodiscard]] absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakeServerCredentials(
    const TlsOptions& tls, const std::shared_ptr<grpc::AuthMetadataProcessor>& check = nullptr);
[[nodiscard]] absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeChannelCredentials(
    const TlsOptions& tls);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_RPC_CREDENTIALS_H_
