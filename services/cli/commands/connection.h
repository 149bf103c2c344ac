#ifndef KERNELCAST_SERVICES_CLI_COMMANDS_CONNECTION_H_
#define KERNELCAST_SERVICES_CLI_COMMANDS_CONNECTION_H_

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/statusor.h"
#include "common/rpc/channel.h"
#include "kernelcast/v1/orchestrator.grpc.pb.h"
#include "services/cli/commands/context.h"
#include "services/cli/commands/forecaster_flags.h"
#include "services/cli/launch/local_services.h"

namespace kernelcast::cli {

// Where services are, or where to bring them up.
struct ConnectionFlags {
  std::string orchestrator;
  std::string worker;
  std::string forecaster;
  std::string state_dir;
  std::string service_dir;
  std::string replay_file;
  ForecasterFlags forecasts;
  ChannelOptions channel;
};

enum class Needs { kOrchestrator, kWorker, kWorkerAndForecaster };

void AddStateFlags(CLI::App& app, ConnectionFlags& flags);
void AddConnectionFlags(CLI::App& app, ConnectionFlags& flags, Needs needs);

// The state folder of the flags, or the default one.
[[nodiscard]] absl::StatusOr<std::string> StateDir(const Context& context,
                                                   const ConnectionFlags& flags);

// Channels to the services that a command needs. Where the flags give no address, to those that run
// on the state folder already; where none run, to services that this object brings up and drains in
// the end. Thread-safe.
class Connection {
 public:
  Connection(Context& context, const ConnectionFlags& flags, Needs needs)
      : context_(context), flags_(flags), needs_(needs) {}

  // Each may be called again when calls fail: services that have gone are found or brought up anew.
  // UNAVAILABLE: cannot be reached or started.
  [[nodiscard]] absl::StatusOr<std::shared_ptr<grpc::Channel>> Orchestrator();
  [[nodiscard]] absl::StatusOr<std::shared_ptr<grpc::Channel>> Worker();
  [[nodiscard]] absl::StatusOr<std::shared_ptr<grpc::Channel>> Forecaster();

  // Does what is to be done with the orchestrator. Where it goes away meanwhile, as the services of
  // another command do when that ends, or one of several orchestrators, `work` is done again, a few
  // times at most, with the next one that is there, which has the same state: it must bear
  // repetition. Otherwise its error is the result.
  using OrchestratorWork = std::function<absl::Status(v1::Orchestrator::Stub& stub)>;
  [[nodiscard]] absl::Status AskOrchestrator(const OrchestratorWork& work);

  // Where the orchestrator is; once it has been reached.
  std::string orchestrator_address() const;
  // Whether the services are this process's own.
  bool owns_services() const;

 private:
  absl::StatusOr<std::shared_ptr<grpc::Channel>> Reach(const std::string& service,
                                                       const std::string& given,
                                                       std::string ServiceAddresses::*member);
  absl::StatusOr<ServiceAddresses> LocalAddresses();

  Context& context_;
  const ConnectionFlags flags_;
  const Needs needs_;
  mutable std::mutex mutex_;
  // Guarded by mutex_.
  std::unique_ptr<LocalServices> services_;
  std::string orchestrator_address_;
  bool told_ = false;
  bool prepared_ = false;
};

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_COMMANDS_CONNECTION_H_
