#ifndef KERNELCAST_COMMON_RPC_SERVER_H_
#define KERNELCAST_COMMON_RPC_SERVER_H_

#include <grpcpp/grpcpp.h>
#include <signal.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/metrics/metrics.h"

namespace kernelcast {

// Paths of PEM files. All empty: no TLS. Replaced files apply to new connections within
// `reload_interval`.
struct TlsOptions {
  std::string certificate_file;
  std::string key_file;
  // Server: clients must present a certificate of this CA (mTLS). Client: CA for verifying the
  // server's certificate.
  std::string ca_file;
  absl::Duration reload_interval = absl::Minutes(1);  // at least one second
};

struct ServerOptions {
  // "host:port" or "unix:PATH". Port 0 picks a free port.
  std::string listen_address = "127.0.0.1:0";
  TlsOptions tls;
  // Callers must send one of the tokens in this file, see TokenTable. Empty: no tokens required.
  std::string token_file;
  absl::Duration token_reload_interval = absl::Seconds(10);
  // Address that serves only health, without TLS and tokens, for probes that support neither.
  // "host:port" or "unix:PATH". Empty: none.
  std::string health_address;
  int max_message_bytes = 64 << 20;
  absl::Duration max_connection_age = absl::Minutes(5);
  absl::Duration max_connection_age_grace = absl::Minutes(10);
};

// A gRPC server with health service, reflection, per-method metrics
// (kernelcast_grpc_server_handled_total and _handling_seconds) and the metric of its certificate's
// expiry. Start registers the services, binds the port exclusively and sets health to SERVING.
// gRPC's own log lines go to our log. Thread-safe after Start.
//
// Health answers for "", "readiness", "liveness" and the full name of each service. If tokens are
// enabled, health requires one too, except on the health address.
class RpcServer {
 public:
  // UNAVAILABLE: the address cannot be bound. INVALID_ARGUMENT: invalid address, TLS or token
  // files, or tokens that would cross a network without TLS. `services` and `metrics` (may be null)
  // must outlive the server.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<RpcServer>> Start(
      const ServerOptions& options, const std::vector<grpc::Service*>& services,
      MetricsRegistry* metrics);
  ~RpcServer();

  // 0 for a Unix socket.
  int port() const;
  // "host:port" or "unix:PATH" for clients on this machine.
  std::string address() const;
  // The same for the health address. Empty if there is none.
  std::string health_address() const;

  // Sets health to NOT_SERVING, except for "liveness". Calls continue.
  void BeginDrain();
  // Stops accepting calls and waits up to `grace` for calls in flight. Then cancels them and
  // returns when they have ended; every reactor must end when cancelled. A repeated call waits for
  // the first.
  void Shutdown(absl::Duration grace);

 private:
  RpcServer();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Blocks until SIGTERM or SIGINT. Construct it before any thread is started, so that threads
// inherit the blocked signals; call Wait later on the main thread. Another signal during the drain
// ends the process. SIGPIPE is ignored from now on, because a closed log reader must not end a
// service.
class TerminationSignal {
 public:
  TerminationSignal();
  ~TerminationSignal();
  TerminationSignal(const TerminationSignal&) = delete;
  TerminationSignal& operator=(const TerminationSignal&) = delete;

  // Returns the signal's number.
  int Wait();
  // Makes Wait return 0. For tests and servers that end by themselves. Thread-safe.
  void Wake();

 private:
  sigset_t previous_mask_;
  int event_fd_ = -1;
  int signal_fd_ = -1;
};

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_RPC_SERVER_H_
