#include "common/rpc/server.h"

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/impl/server_builder_option.h>
#include <grpcpp/impl/server_builder_plugin.h>
#include <grpcpp/impl/server_initializer.h>
#include <grpcpp/resource_quota.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <mutex>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/rpc/call_trace.h"
#include "common/rpc/certificate_expiry.h"
#include "common/rpc/credentials.h"
#include "common/rpc/file_watch.h"
#include "common/rpc/grpc_setup.h"
#include "common/rpc/listener.h"
#include "common/rpc/local_address.h"
#include "common/rpc/method_metrics.h"
#include "common/rpc/token_check.h"

namespace kernelcast {
namespace {

// Limit on the buffers of all connections together. Far above normal use, so that only a flood
// reaches it; calls are then refused instead of the process being killed.
constexpr size_t kMaxBufferBytes = size_t{1} << 30;

// An orchestrator has as many calls in flight per connection as a worker gives credits.
constexpr int kMaxStreamsPerConnection = 4096;

using Acceptor = grpc::experimental::ExternalConnectionAcceptor;

// Lets the server serve connections that a listener accepts.
std::shared_ptr<Acceptor> AddAcceptor(grpc::ServerBuilder& builder,
                                      const std::shared_ptr<grpc::ServerCredentials>& credentials) {
  using Connection = grpc::ServerBuilder::experimental_type::ExternalConnectionType;
  return builder.experimental().AddExternalConnectionAcceptor(Connection::FROM_FD, credentials);
}

// Call it when the server has started. Stop the listener before the server.
void StartAccepting(Listener& listener, std::shared_ptr<Acceptor> acceptor) {
  listener.Start([acceptor = std::move(acceptor)](int listening_fd, int fd) {
    Acceptor::NewConnectionParameters connection;
    connection.listener_fd = listening_fd;
    connection.fd = fd;
    acceptor->HandleNewConnection(&connection);
  });
}

using OnServiceNames = std::function<void(const std::vector<std::string>&)>;

// Collects the names of a server's services before it accepts calls. grpc::Service does not expose
// its name; reflection gets the names the same way.
class ServiceNamesPlugin final : public grpc::ServerBuilderPlugin {
 public:
  explicit ServiceNamesPlugin(OnServiceNames on_names) : on_names_(std::move(on_names)) {}
  std::string name() override { return "kernelcast_service_names"; }
  void InitServer(grpc::ServerInitializer* initializer) override {
    on_names_(*initializer->GetServiceList());
  }
  void Finish(grpc::ServerInitializer*) override {}
  void ChangeArguments(const std::string&, void*) override {}

 private:
  const OnServiceNames on_names_;
};

class ServiceNamesOption final : public grpc::ServerBuilderOption {
 public:
  explicit ServiceNamesOption(OnServiceNames on_names) : on_names_(std::move(on_names)) {}
  void UpdateArguments(grpc::ChannelArguments*) override {}
  void UpdatePlugins(std::vector<std::unique_ptr<grpc::ServerBuilderPlugin>>* plugins) override {
    plugins->push_back(std::make_unique<ServiceNamesPlugin>(on_names_));
  }

 private:
  const OnServiceNames on_names_;
};

// gRPC inflates a message whole before it looks at the size, so that 64 MiB may become 64 GiB.
// Callers that compress get UNIMPLEMENTED, and nothing is inflated.
void RefuseCompression(grpc::ServerBuilder& builder) {
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  builder.AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
}

void SetArguments(const ServerOptions& options, grpc::ServerBuilder& builder) {
  const auto milliseconds = [](absl::Duration duration) {
    return static_cast<int>(std::clamp<int64_t>(absl::ToInt64Milliseconds(duration), 1,
                                                std::numeric_limits<int>::max()));
  };
  builder.SetMaxReceiveMessageSize(options.max_message_bytes);
  builder.SetMaxSendMessageSize(options.max_message_bytes);
  RefuseCompression(builder);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS,
                             milliseconds(options.max_connection_age));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS,
                             milliseconds(options.max_connection_age_grace));
  // Our clients ping every 30 s, with or without calls. Others may ping every 10 s.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 60'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 10'000);
  // Drops clients that connect and then send nothing.
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, 20'000);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxStreamsPerConnection);
  grpc::ResourceQuota quota("kernelcast");
  quota.Resize(kMaxBufferBytes);
  builder.SetResourceQuota(quota);
}

absl::Status NotStarted() {
  return absl::InternalError("gRPC did not start the server; its log lines say why");
}

// Removes the reflection plugin: the health server must serve nothing but health.
class NoPluginsOption final : public grpc::ServerBuilderOption {
 public:
  void UpdateArguments(grpc::ChannelArguments*) override {}
  void UpdatePlugins(std::vector<std::unique_ptr<grpc::ServerBuilderPlugin>>* plugins) override {
    plugins->clear();
  }
};

// Plaintext and unauthenticated. No service can be registered with it, and its buffers are small.
class HealthServer {
 public:
  static absl::StatusOr<std::unique_ptr<HealthServer>> Start(const std::string& address) {
    std::unique_ptr<HealthServer> result(new HealthServer);
    KC_ASSIGN_OR_RETURN(result->listener_, Listener::Bind(address));
    grpc::ServerBuilder builder;
    builder.SetOption(std::make_unique<NoPluginsOption>());
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 16);
    builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, 20'000);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS, 60'000);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS, 1'000);
    builder.SetMaxReceiveMessageSize(1 << 10);
    RefuseCompression(builder);
    grpc::ResourceQuota quota("kernelcast health");
    quota.Resize(size_t{16} << 20);
    builder.SetResourceQuota(quota);
    // gRPC does not start a server without services. This one answers UNIMPLEMENTED.
    builder.RegisterCallbackGenericService(&result->nothing_);
    auto acceptor = AddAcceptor(builder, grpc::InsecureServerCredentials());
    result->server_ = builder.BuildAndStart();
    if (result->server_ == nullptr) return NotStarted();
    StartAccepting(*result->listener_, std::move(acceptor));
    return result;
  }

  std::string address() const { return listener_->address(); }
  void SetServingStatus(const std::string& service, bool serving) {
    server_->GetHealthCheckService()->SetServingStatus(service, serving);
  }
  void Shutdown() {
    listener_->Stop();
    server_->Shutdown(absl::ToChronoTime(absl::Now()));
    server_->Wait();
  }

 private:
  HealthServer() = default;

  grpc::CallbackGenericService nothing_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<Listener> listener_;  // stops before the server ends
};

}  // namespace

struct RpcServer::Impl {
  std::vector<std::string> service_names;
  // Outlives the server, whose interceptors refer to it. Null without a registry.
  std::unique_ptr<MethodMetrics> method_metrics;
  std::unique_ptr<CertificateExpiry> certificate_expiry;  // null without a registry
  // Null without tokens. Shared with gRPC, which releases it at any time.
  std::shared_ptr<TokenCheck> token_check;
  std::unique_ptr<FileWatch> token_watch;
  std::unique_ptr<grpc::Server> server;
  std::unique_ptr<Listener> listener;    // stops before the server ends
  std::unique_ptr<HealthServer> health;  // null if not configured
  std::once_flag shutdown;

  void SetServices(const std::vector<std::string>& names) {
    service_names = names;
    if (method_metrics != nullptr) {
      for (const std::string& name : names) {
        method_metrics->AddService(name);
      }
      method_metrics->AddService("grpc.health.v1.Health");  // gRPC adds it later
    }
  }

  absl::Status SetUpTokens(const ServerOptions& options, MetricsRegistry* metrics) {
    const bool leaves_machine = !IsLocalAddress(options.listen_address);
    if (options.token_file.empty()) {
      if (leaves_machine && options.tls.ca_file.empty()) {
        Log(LogLevel::kWarning,
            "serving without authentication: neither tokens nor certificates are required",
            {{"address", options.listen_address}});
      }
      return absl::OkStatus();
    }
    if (leaves_machine && options.tls.certificate_file.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("tokens would cross the network to ", options.listen_address,
                       " in the clear: turn on TLS, or listen on 127.0.0.1 or a Unix socket"));
    }
    KC_ASSIGN_OR_RETURN(token_check, TokenCheck::Create(options.token_file, metrics));
    token_watch = std::make_unique<FileWatch>(std::vector<std::string>{options.token_file},
                                              options.token_reload_interval,
                                              [check = token_check.get()] { check->Reload(); });
    return absl::OkStatus();
  }

  void SetServingStatus(const std::string& service, bool serving) {
    server->GetHealthCheckService()->SetServingStatus(service, serving);
    if (health != nullptr) {
      health->SetServingStatus(service, serving);
    }
  }
  void SetServing(bool serving) {
    SetServingStatus("", serving);
    SetServingStatus("readiness", serving);
    for (const std::string& name : service_names) {
      SetServingStatus(name, serving);
    }
  }
};

RpcServer::RpcServer() : impl_(std::make_unique<Impl>()) {}

absl::StatusOr<std::unique_ptr<RpcServer>> RpcServer::Start(
    const ServerOptions& options, const std::vector<grpc::Service*>& services,
    MetricsRegistry* metrics) {
  SetUpGrpc();
  std::unique_ptr<RpcServer> result(new RpcServer);
  Impl& impl = *result->impl_;
  KC_RETURN_IF_ERROR(impl.SetUpTokens(options, metrics));
  KC_ASSIGN_OR_RETURN(const std::shared_ptr<grpc::ServerCredentials> credentials,
                      MakeServerCredentials(options.tls, impl.token_check));
  KC_ASSIGN_OR_RETURN(impl.listener, Listener::Bind(options.listen_address));

  grpc::ServerBuilder builder;
  SetArguments(options, builder);
  builder.SetOption(std::make_unique<ServiceNamesOption>(
      [&impl](const std::vector<std::string>& names) { impl.SetServices(names); }));
  std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> factories;
  if (metrics != nullptr) {
    impl.method_metrics = std::make_unique<MethodMetrics>(metrics);
    factories.push_back(impl.method_metrics->MakeInterceptorFactory());
  }
  if (ActiveTracer() != nullptr) factories.push_back(MakeTraceInterceptorFactory());
  if (!factories.empty()) {
    builder.experimental().SetInterceptorCreators(std::move(factories));
  }
  for (grpc::Service* const service : services) {
    builder.RegisterService(service);
  }
  auto acceptor = AddAcceptor(builder, credentials);
  impl.server = builder.BuildAndStart();
  if (impl.server == nullptr) return NotStarted();
  if (metrics != nullptr) {
    impl.certificate_expiry = std::make_unique<CertificateExpiry>("server", options.tls, metrics);
  }
  if (!options.health_address.empty()) {
    KC_ASSIGN_OR_RETURN(impl.health, HealthServer::Start(options.health_address));
  }
  impl.SetServing(true);
  impl.SetServingStatus("liveness", true);
  StartAccepting(*impl.listener, std::move(acceptor));
  return result;
}

RpcServer::~RpcServer() {
  if (impl_->server != nullptr) {
    Shutdown(absl::ZeroDuration());
  }
}

int RpcServer::port() const { return impl_->listener->port(); }

std::string RpcServer::address() const { return impl_->listener->address(); }

std::string RpcServer::health_address() const {
  return impl_->health != nullptr ? impl_->health->address() : "";
}

void RpcServer::BeginDrain() { impl_->SetServing(false); }

void RpcServer::Shutdown(absl::Duration grace) {
  std::call_once(impl_->shutdown, [&] {
    BeginDrain();
    impl_->listener->Stop();
    impl_->server->Shutdown(absl::ToChronoTime(absl::Now() + grace));
    impl_->server->Wait();
    if (impl_->health != nullptr) {  // last: a draining server is still alive
      impl_->health->Shutdown();
    }
  });
}

}  // namespace kernelcast
