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

// Cancels the calls and connection attempts that are in progress. Later ones are not affected.
// Thread-safe.
void CancelCalls();

// Lets CancelCalls cancel the call of a context, which must outlive this object.
class CancellableCall {
 public:
  explicit CancellableCall(grpc::ClientContext& context);
  ~CancellableCall();
  CancellableCall(const CancellableCall&) = delete;
  CancellableCall& operator=(const CancellableCall&) = delete;

 private:
  grpc::ClientContext& context_;
};

// Returns a channel to a service that answers. UNAVAILABLE: none answers within `patience`; the
// message names the service and the address. CANCELLED: by CancelCalls.
[[nodiscard]] absl::StatusOr<std::shared_ptr<grpc::Channel>> Connect(const std::string& service,
                                                                     const std::string& address,
                                                                     const ChannelOptions& options,
                                                                     absl::Duration patience);

// Makes a unary call: Call(*stub, &Stub::GetSearch, request, &reply). Waits within the timeout for
// a connection that is being re-established. CANCELLED: by CancelCalls, or by the server.
template <class Stub, class Request, class Reply>
[[nodiscard]] absl::Status Call(
    Stub& stub, grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Reply*),
    const Request& request, Reply* reply, absl::Duration timeout = kUnaryTimeout) {
  grpc::ClientContext context;
  SetTimeout(context, timeout);
  context.set_wait_for_ready(true);
  const CancellableCall cancellable(context);
  const grpc::Status status = (stub.*method)(&context, request, reply);
  return FromGrpc(status, context);
}

// Whether to retry because the service may be back soon. Includes CANCELLED, since a server that
// shuts down cancels its calls; a caller must first check whether it cancelled the call itself.
bool IsTransient(const absl::Status& status);

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_RPC_CHANNEL_H_
