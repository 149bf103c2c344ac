#ifndef KERNELCAST_SERVICES_CLI_COMMANDS_CONNECTION_H_
#define KERNELCAST_SERVICES_CLI_COMMANDS_CONNECTION_H_

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/domain/problem.h"
#include "common/rpc/channel.h"
#include "kernelcast/v1/orchestrator.grpc.pb.h"
#include "kernelcast/v1/worker.grpc.pb.h"
#include "services/cli/commands/context.h"
#include "services/cli/commands/forecaster_flags.h"
#include "services/cli/launch/local_services.h"

namespace kernelcast::cli {

// Addresses of services, or how to start them.
struct ConnectionFlags {
  std::string orchestrator;
  std::string worker;
  std::string forecaster;
  std::string state_dir;
  std::string service_dir;
  std::string replay_file;
  std::string python;
  ForecasterFlags forecasts;
  ChannelOptions channel;
};

// kLog: an orchestrator that reads the log; it need not be able to do more.
enum class Needs { kOrchestrator, kLog, kWorker, kWorkerAndForecaster };

void AddStateFlags(CLI::App& app, ConnectionFlags& flags);
void AddConnectionFlags(CLI::App& app, ConnectionFlags& flags, Needs needs);

// The interpreter of a worker started by the command: that of the flags, or that of the environment
// that the programs are installed in. May be empty.
std::string PythonOf(const Context& context, const ConnectionFlags& flags);

// Arguments of a worker started by the command.
std::vector<std::string> WorkerArguments(const Context& context, const ConnectionFlags& flags);

// Returns the state folder given by the flags, or the default one.
[[nodiscard]] absl::StatusOr<std::string> StateDir(const Context& context,
                                                   const ConnectionFlags& flags);

// Channels to the services that a command needs. Uses the addresses in the flags, or else services
// that already run on the state folder, or else services that this object starts, and drains when
// it is destroyed. Thread-safe.
class Connection {
 public:
  Connection(const Context& context, const ConnectionFlags& flags, Needs needs)
      : context_(context), flags_(flags), needs_(needs) {}

  // Call it before the services are reached: a worker that this object starts judges a PyTorch task
  // with python3 if there is no PythonOf.
  void PrepareFor(const Problem& problem);

  // May be called again when calls fail: finds services that have moved, or starts them again.
  // UNAVAILABLE: cannot be reached or started.
  [[nodiscard]] absl::StatusOr<std::shared_ptr<grpc::Channel>> Orchestrator();
  [[nodiscard]] absl::StatusOr<std::shared_ptr<grpc::Channel>> Worker();
  [[nodiscard]] absl::StatusOr<std::shared_ptr<grpc::Channel>> Forecaster();

  // Runs `work` with the orchestrator and returns its status. If the orchestrator goes away during
  // the call (another command ended its services, or one of several orchestrators stopped), runs
  // `work` again with the next one, which has the same state, a limited number of times. `work`
  // must be safe to repeat.
  using OrchestratorWork = std::function<absl::Status(v1::Orchestrator::Stub& stub)>;
  [[nodiscard]] absl::Status AskOrchestrator(const OrchestratorWork& work);

  // Prepares for a problem and puts it into the orchestrator.
  [[nodiscard]] absl::StatusOr<v1::PutProblemReply> PutProblem(const Problem& problem);

  // UNAVAILABLE: the orchestrator runs on this machine, where nothing measures candidates of the
  // target. The message has the worker's reason. An orchestrator elsewhere may get other workers,
  // so it is not asked.
  [[nodiscard]] absl::Status CheckMeasures(const std::string& target);

  // The command that follows a search on the same services, or on new ones like them.
  std::string WatchCommand(const std::string& search_id) const;

  // Whether the services belong to this process.
  bool owns_services() const;

 private:
  absl::StatusOr<std::shared_ptr<grpc::Channel>> Reach(const std::string& service,
                                                       const std::string& given,
                                                       std::string ServiceAddresses::*member);
  absl::StatusOr<ServiceAddresses> LocalAddresses();

  const Context& context_;
  ConnectionFlags flags_;
  const Needs needs_;
  mutable std::mutex mutex_;
  // Guarded by mutex_.
  std::unique_ptr<LocalServices> services_;
  bool warned_ = false;
  bool prepared_ = false;
};

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_COMMANDS_CONNECTION_H_
