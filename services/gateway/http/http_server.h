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
  TlsOptions tls = {};
  // Requests at the same time; each has a thread. Further ones wait for a thread.
  int threads = 128;
  size_t max_body_bytes = size_t{8} << 20;
  // Of all requests together.
  size_t max_bodies_bytes = size_t{256} << 20;
};

// Serves a front over HTTP or HTTPS. Connections are closed after each reply, so that idle clients
// hold no threads. Thread-safe.
class HttpServer {
 public:
  // `front` must outlive the server. INVALID_ARGUMENT: invalid address or TLS files.
  // UNAVAILABLE: the address cannot be bound.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<HttpServer>> Start(
      const HttpServerOptions& options, Front* front);
  // Stops, and waits for requests in progress. Takes up to two seconds.
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
