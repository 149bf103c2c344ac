#ifndef KERNELCAST_COMMON_RPC_CHANNEL_H_
#define KERNELCAST_COMMON_RPC_CHANNEL_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/trace_context.h"
#include "common/rpc/server.h"

namespace kernelcast {

struct ChannelOptions {
  TlsOptions tls;
  // File with a bearer token that is sent with every call. Empty: none.
  std::string token_file;
  absl::Duration token_reload_interval = absl::Seconds(10);
  int max_message_bytes = 64 << 20;
  // Name to verify in the server's certificate if it differs from the address.
  std::string authority;
  // If valid, sent with every call. For programs whose calls all belong to one trace.
  TraceContext trace = {};
};

// Creates a channel with keepalive, bounded reconnect backoff, round-robin over the resolved
// addresses, and no HTTP proxy. Plaintext unless tls.ca_file is set. A certificate, if configured,
// is sent to servers that ask for one. INVALID_ARGUMENT: unreadable TLS files, a certificate
// without a CA, a file without a token, or a token that would leave this machine without TLS.
[[nodiscard]] absl::StatusOr<std::shared_ptr<grpc::Channel>> MakeChannel(
    const std::string& address, const ChannelOptions& options = {});

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_RPC_CHANNEL_H_
