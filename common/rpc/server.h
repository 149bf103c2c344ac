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

// Paths of PEM files; all empty: no TLS. Files that are replaced later, as secrets are, count for
// new connections within `reload_interval`.
struct TlsOptions {
  std::string certificate_file;
  std::string key_file;
  // Server: clients must present a certificate of this authority (mTLS). Client: authority that the
  // server's certificate is checked against.
  std::string ca_file;
  absl::Duration reload_interval = absl::Minutes(1);  // at least a second
};

struct ServerOptions {
  // "host:port" or "unix:PATH"; port 0 picks one.
  std::string listen_address = "127.0.0.1:0";
  TlsOptions tls;
  // Callers must hold one of its tokens, see TokenTable; empty: tokens are not asked for.
  std::string token_file;
  absl::Duration token_reload_interval = absl::Seconds(10);
  // Where health is served without TLS and tokens, and nothing else is: for probes that speak
  // neither. "host:port" or "unix:PATH"; empty: nowhere.
  std::string health_address;
  int max_message_bytes = 64 << 20;
  absl::Duration max_connection_age = absl::Minutes(5);
  absl::Duration max_connection_age_grace = absl::Minutes(10);
};

// A gRPC server with health service, reflection, per-method metrics
// (kernelcast_grpc_server_handled_total and _handling_seconds) and the metric of its certificate's
// expiry. Start order: services are registered, the port is bound exclusively, health is SERVING.
// Thread-safe after Start. gRPC's own log lines become lines of ours.
//
// Health answers for "", "readiness", "liveness" and each service's full name. Where tokens are
// asked for, it wants one as every other call, save on the health address.
class RpcServer {
 public:
  // UNAVAILABLE: the address cannot be bound. INVALID_ARGUMENT: bad address, TLS or token files, or
  // tokens that would cross a network without TLS.
  // `services` and `metrics`, which may be null, must outlive the server.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<RpcServer>> Start(
      const ServerOptions& options, const std::vector<grpc::Service*>& services,
      MetricsRegistry* metrics);
  ~RpcServer();

  // 0 on a Unix socket.
  int port() const;
  // "host:port" or "unix:PATH" that a client on this machine can use.
  std::string address() const;
  // The same of the health address; empty where there is none.
  std::string health_address() const;

  // Health NOT_SERVING from now on, save for "liveness"; calls go on.
  void BeginDrain();
  // Stops accepting, waits for calls in flight until the deadline, then cancels them and returns
  // when they have ended, as every reactor must when it is cancelled. Again: waits for the first
  // one.
  void Shutdown(absl::Duration grace);

 private:
  RpcServer();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Blocks until SIGTERM or SIGINT; must be called before any thread is started so that they inherit
// the blocked signals: construct first, Wait later, both on the main thread. A second signal during
// the drain ends the process. SIGPIPE is ignored from now on: a reader of the log that went away
// must not end a service.
class TerminationSignal {
 public:
  TerminationSignal();
  ~TerminationSignal();
  TerminationSignal(const TerminationSignal&) = delete;
  TerminationSignal& operator=(const TerminationSignal&) = delete;

  // Returns the signal's number.
  int Wait();
  // Makes Wait return 0; for tests and for servers that end by themselves. Any thread, at any time.
  void Wake();

 private:
  sigset_t previous_mask_;
  int event_fd_ = -1;
  int signal_fd_ = -1;
};

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_RPC_SERVER_H_
