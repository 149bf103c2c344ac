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
  // File of a bearer token that every call carries; empty: none.
  std::string token_file;
  absl::Duration token_reload_interval = absl::Seconds(10);
  int max_message_bytes = 64 << 20;
  // The name that the server's certificate is checked against, where the address is not it.
  std::string authority;
  // Sent along with every call, where it is valid: for a program whose calls all belong to one
  // trace.
  TraceContext trace = {};
};

// A channel with keepalive, bounded reconnect back-off, round robin over what the name resolves to,
// and no HTTP proxy. Plaintext unless tls.ca_file is set; with a certificate too, it is shown to
// servers that ask. INVALID_ARGUMENT: unreadable TLS files, a certificate without an authority, a
// file that holds no token, or a token that would leave this machine without TLS.
[[nodiscard]] absl::StatusOr<std::shared_ptr<grpc::Channel>> MakeChannel(
    const std::string& address, const ChannelOptions& options = {});

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_RPC_CHANNEL_H_
