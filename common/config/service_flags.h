#ifndef KERNELCAST_COMMON_CONFIG_SERVICE_FLAGS_H_
#define KERNELCAST_COMMON_CONFIG_SERVICE_FLAGS_H_

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>

#include "common/otlp/process_tracing.h"
#include "common/rpc/channel.h"
#include "common/rpc/server.h"

namespace kernelcast {

// Flags shared by the services.
struct ServiceFlags {
  ServerOptions server;
  std::string metrics_address = "127.0.0.1:0";  // "" disables metrics
  TracingOptions tracing;
  std::string log_level = "info";
  double drain_seconds = 30;
  // When the service is ready, it writes its bound addresses to this file, by rename, as JSON:
  // {"grpc": "HOST:PORT", "metrics": "HOST:PORT", "health": "HOST:PORT"}, for HTTP "http".
  // Addresses that are not served are left out. For launchers that start the service on port 0.
  std::string ready_file;
};

// Adds the shared flags, --version and --config FILE. The file is a flat YAML mapping from flag
// names without dashes to values, and covers the service's own flags too. Flags on the command line
// override it. An unknown key is an error that names the file, the line and the key. A missing file
// is an error. --version prints "NAME VERSION (REVISION)". `app` and `flags` must live until
// parsing is done.
void AddServiceFlags(CLI::App& app, ServiceFlags& flags);
// The same for a service that serves HTTP and no gRPC, without the flags about gRPC.
void AddHttpServiceFlags(CLI::App& app, ServiceFlags& flags);

// Adds the flags of a service that calls others. `servers` and `certificates` name them in the
// help, such as "the orchestrator" and "the certificate of the orchestrator"; `token_use` says what
// the token is for.
void AddClientFlags(CLI::App& app, ChannelOptions& channel, const std::string& servers,
                    const std::string& certificates, const std::string& token_use);

// Parses the command line and sets the log level. Returns -1 to continue, otherwise the exit code
// (0 after help or version, 2 for bad usage). Prints help, version and errors itself.
int ParseServiceFlags(CLI::App& app, int argc, char** argv);

// Runs the main function of a service: sets the service's name in log lines, raises the limit of
// file descriptors, and returns the exit code of `run`. Logs an error or an exception of `run` and
// returns 1.
int RunService(std::string_view name, absl::StatusOr<int> (*run)(int argc, char** argv), int argc,
               char** argv);

// Addresses that a service listens on. Empty: not served.
struct ServedAddresses {
  std::string grpc = {};
  int metrics_port = 0;  // on the host of --metrics
  std::string health = {};
  std::string status = {};
  std::string http = {};
};

// Writes the ready file if one is configured. UNAVAILABLE names the file.
[[nodiscard]] absl::Status WriteReadyFile(const ServiceFlags& flags, const ServedAddresses& served);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_CONFIG_SERVICE_FLAGS_H_
