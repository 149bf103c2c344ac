#ifndef KERNELCAST_SERVICES_GATEWAY_HTTP_HTTP_SERVER_H_
#define KERNELCAST_SERVICES_GATEWAY_HTTP_HTTP_SERVER_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/rpc/server.h"
#include "services/gateway/http/front.h"

namespace kernelcast::gateway {

struct HttpServerOptions {
  std::string address = "127.0.0.1:0";  // host:port; port 0 picks a free port
  // Replaced files apply to new connections. If they cannot be used, the earlier ones stay in use.
  TlsOptions tls = {};
  // Requests that are answered at the same time; each has a thread. Further ones wait.
  int threads = 128;
  // Open connections. Further ones are closed at once.
  unsigned max_connections = 8192;
  size_t max_body_bytes = size_t{8} << 20;
  // The limit for the bodies of all requests together.
  size_t max_bodies_bytes = size_t{256} << 20;
};

// Serves a front over HTTP or HTTPS. One thread reads all requests, so that slow clients hold no
// thread; a complete request is answered by one of the others. Connections are closed after each
// reply. Thread-safe.
class HttpServer {
 public:
  // `front` must outlive the server. INVALID_ARGUMENT: invalid address or TLS files.
  // UNAVAILABLE: the address cannot be bound.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<HttpServer>> Start(
      const HttpServerOptions& options, Front* front);
  // Accepts no more, answers the complete requests, and waits up to two seconds until their clients
  // have read the replies.
  ~HttpServer();

  // host:port, as bound.
  const std::string& address() const;

 private:
  class Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace kernelcast::gateway

#endif  // KERNELCAST_SERVICES_GATEWAY_HTTP_HTTP_SERVER_H_
