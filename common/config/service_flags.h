#ifndef KERNELCAST_COMMON_CONFIG_SERVICE_FLAGS_H_
#define KERNELCAST_COMMON_CONFIG_SERVICE_FLAGS_H_

#include <CLI/CLI.hpp>

#include <string>

#include "common/rpc/server.h"

namespace kernelcast {

// Flags that all three services share.
struct ServiceFlags {
  ServerOptions server;
  std::string metrics_address = "127.0.0.1:0";  // "" serves no metrics
  std::string log_level = "info";
  double drain_seconds = 30;
  // Where the bound addresses are written as JSON {"grpc": ..., "metrics": ...} once the service
  // serves, by rename; for launchers that start it on port 0.
  std::string ready_file;
};

// Adds the shared flags, --version and --config FILE. The file is YAML with flag names (without
// dashes) as keys; flags on the command line win; an unknown key is an error that names it and its
// line.
void AddServiceFlags(CLI::App& app, ServiceFlags& flags);

// Parses; returns the exit code to end with, or -1 to go on. Prints help, version and errors itself.
int ParseServiceFlags(CLI::App& app, int argc, char** argv);

// Writes the ready file if one is asked for.
[[nodiscard]] absl::Status WriteReadyFile(const ServiceFlags& flags, const std::string& grpc_address,
                                          int metrics_port);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_CONFIG_SERVICE_FLAGS_H_
