#ifndef KERNELCAST_SERVICES_GATEWAY_HTTP_TLS_RELAY_H_
#define KERNELCAST_SERVICES_GATEWAY_HTTP_TLS_RELAY_H_

#include <atomic>
#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "common/base/descriptor.h"
#include "common/rpc/listener.h"
#include "services/gateway/http/tls_context.h"

namespace kernelcast::gateway {

// Accepts TLS connections and passes their bytes on to a server on a port of 127.0.0.1. CivetWeb
// 1.15, which Debian 12 has, cannot serve TLS with OpenSSL 3: it calls a function that this does
// not export. Thread-safe.
class TlsRelay {
 public:
  // Errors of Listener::Bind and TlsContext::Create.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<TlsRelay>> Create(const std::string& address,
                                                                        const TlsOptions& tls,
                                                                        size_t max_connections);
  // Ends all connections.
  ~TlsRelay();
  TlsRelay(const TlsRelay&) = delete;
  TlsRelay& operator=(const TlsRelay&) = delete;

  int port() const { return listener_->port(); }
  // Accepts connections for the server at `server_port`. Call it once.
  void Start(int server_port);
  // Accepts no more. Connections go on until the server closes them.
  void Stop() { listener_->Stop(); }
  // Whether the connection to the server from this port is the relay's.
  bool Owns(int from_port) const;

 private:
  struct Connection {
    Descriptor client;
    Descriptor server;
    std::thread thread;
    std::atomic<bool> ended = false;
  };

  TlsRelay(std::unique_ptr<TlsContext> tls, std::unique_ptr<Listener> listener,
           size_t max_connections);
  void Accept(int client);
  void Serve(Connection& connection);
  // Connects to the server from a port that Owns knows. False: it cannot.
  bool Connect(Connection& connection, int& from_port);

  // Constant after construction.
  const size_t max_connections_;
  const std::unique_ptr<TlsContext> tls_;

  std::atomic<int> server_port_ = 0;
  mutable std::mutex mutex_;
  std::list<Connection> connections_ ABSL_GUARDED_BY(mutex_);
  std::set<int> from_ports_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<Listener> listener_;
};

}  // namespace kernelcast::gateway

#endif  // KERNELCAST_SERVICES_GATEWAY_HTTP_TLS_RELAY_H_
