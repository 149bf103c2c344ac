#ifndef KERNELCAST_COMMON_CONFIG_SERVICE_FLAGS_H_
#define KERNELCAST_COMMON_CONFIG_SERVICE_FLAGS_H_

#include <CLI/CLI.hpp>
#include <string>

#include "common/otlp/process_tracing.h"
#include "common/rpc/server.h"

namespace kernelcast {

// Flags that all three services share.
struct ServiceFlags {
  ServerOptions server;
  std::string metrics_address = "127.0.0.1:0";  // "" serves no metrics
  TracingOptions tracing;
  std::string log_level = "info";
  double drain_seconds = 30;
  // Where the bound addresses are written as JSON {"grpc": "HOST:PORT", "metrics": "HOST:PORT",
  // "health": "HOST:PORT"} once the service serves, by rename; for launchers that start it on port
  // 0. Without metrics or a health address these are left out.
  std::string ready_file;
};

// Adds the shared flags, --version and --config FILE. The file is a flat YAML mapping whose keys
// are flag names without dashes, also those that the service itself adds; flags on the command line
// win. An unknown key is an error that names the file, the line and the key; so is a missing file.
// --version prints "NAME VERSION (REVISION)". `app` and `flags` are referred to until parsing is
// done.
void AddServiceFlags(CLI::App& app, ServiceFlags& flags);

// Parses, and sets the log level; returns the exit code to end with (0 after help or version, 2 for
// bad usage) or -1 to go on. Prints help, version and errors itself.
int ParseServiceFlags(CLI::App& app, int argc, char** argv);

// What a service's main function returns, after it has raised its limit of descriptors: what `run`
// does, or 1 after a log line where an exception got out of it.
int RunService(int (*run)(int argc, char** argv), int argc, char** argv);

// What a service has come to serve at, in whole; empty: it does not.
struct ServedAddresses {
  std::string grpc;
  int metrics_port = 0;  // of the host of --metrics
  std::string health;
  std::string status;
};

// Writes the ready file if one is asked for. UNAVAILABLE names the file.
[[nodiscard]] absl::Status WriteReadyFile(const ServiceFlags& flags, const ServedAddresses& served);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_CONFIG_SERVICE_FLAGS_H_
