#include "common/rpc/channel.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/rpc/call_trace.h"
#include "common/rpc/client_token.h"
#include "common/rpc/credentials.h"
#include "common/rpc/grpc_setup.h"
#include "common/rpc/local_address.h"

namespace kernelcast {

absl::StatusOr<std::shared_ptr<grpc::Channel>> MakeChannel(const std::string& address,
                                                           const ChannelOptions& options) {
  SetUpGrpc();
  KC_ASSIGN_OR_RETURN(const std::shared_ptr<grpc::ChannelCredentials> credentials,
                      MakeChannelCredentials(options.tls));
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(options.max_message_bytes);
  arguments.SetMaxSendMessageSize(options.max_message_bytes);
  // A compressed reply would be inflated whole before its size is looked at.
  arguments.SetInt(GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET, 1 << GRPC_COMPRESS_NONE);
  arguments.SetInt(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  arguments.SetLoadBalancingPolicyName("round_robin");
  // Detects within 40 s a peer that vanished without closing, even without calls.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 30'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // Reconnects quickly to a peer that restarts.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 2'000);  // also bounds one attempt
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2'000);
  arguments.SetInt(GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS, 5'000);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  if (!options.authority.empty()) {
    arguments.SetString(GRPC_ARG_DEFAULT_AUTHORITY, options.authority);
  }
  std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>> factories;
  if (options.trace.valid()) factories.push_back(MakeTraceSender(options.trace));
  if (options.token_file.empty() && factories.empty()) {
    return grpc::CreateCustomChannel(address, credentials, arguments);
  }
  if (!options.token_file.empty()) {
    if (options.tls.ca_file.empty() && !IsLocalAddress(address)) {
      return absl::InvalidArgumentError(
          absl::StrCat("a token is sent over TLS only, and to ", address,
                       " there is none: give the authority to check that server against"));
    }
    KC_ASSIGN_OR_RETURN(auto sender,
                        MakeTokenSender(options.token_file, options.token_reload_interval));
    factories.push_back(std::move(sender));
  }
  return grpc::experimental::CreateCustomChannelWithInterceptors(address, credentials, arguments,
                                                                 std::move(factories));
}

}  // namespace kernelcast
