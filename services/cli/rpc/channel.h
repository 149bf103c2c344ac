#ifndef KERNELCAST_SERVICES_CLI_RPC_CHANNEL_H_
#define KERNELCAST_SERVICES_CLI_RPC_CHANNEL_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/rpc/channel.h"
#include "common/rpc/status_conversion.h"

namespace kernelcast::cli {

inline constexpr absl::Duration kUnaryTimeout = absl::Seconds(60);

// A channel to a service that answers. UNAVAILABLE, naming the service and the address, where none
// does within `patience`.
[[nodiscard]] absl::StatusOr<std::shared_ptr<grpc::Channel>> Connect(
    const std::string& service, const std::string& address, const ChannelOptions& options,
    absl::Duration patience = absl::Seconds(5));

// Makes a unary call: Call(*stub, &Stub::GetSearch, request, &reply). Waits for a connection that
// is being made again, within the timeout.
template <class Stub, class Request, class Reply>
[[nodiscard]] absl::Status Call(
    Stub& stub, grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Reply*),
    const Request& request, Reply* reply, absl::Duration timeout = kUnaryTimeout) {
  grpc::ClientContext context;
  SetTimeout(context, timeout);
  context.set_wait_for_ready(true);
  const grpc::Status status = (stub.*method)(&context, request, reply);
  return FromGrpc(status, context);
}

// Whether the call is worth making again because the service may be back soon. A cancelled call
// counts: a server that shuts down cancels what it has; callers ask themselves first whether it was
// they.
bool IsTransient(const absl::Status& status);

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_RPC_CHANNEL_H_
