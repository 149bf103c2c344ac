#ifndef KERNELCAST_SERVICES_CLI_LAUNCH_LOCAL_SERVICES_H_
#define KERNELCAST_SERVICES_CLI_LAUNCH_LOCAL_SERVICES_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "services/cli/launch/interrupt.h"
#include "services/cli/launch/state_lock.h"

namespace kernelcast::cli {

struct LocalServicesOptions {
  std::string state_dir;
  // Folder of the services' programs.
  std::string program_folder;
  std::string orchestrator_listen = "127.0.0.1:0";
  // Recorded measurements for the worker to answer from; empty: it measures.
  std::string replay_file;
  // Given to all three besides, and then to the forecaster and to the orchestrator.
  std::vector<std::string> service_arguments;
  std::vector<std::string> forecaster_arguments;
  std::vector<std::string> orchestrator_arguments;
  std::string log_level = "info";
  // Which to start; the orchestrator needs both others.
  bool with_worker = true;
  bool with_forecaster = true;
  bool with_orchestrator = true;
  // How long each service may take to end what is in flight.
  absl::Duration drain = absl::Seconds(20);
  // How long a service may take to be ready.
  absl::Duration start_timeout = absl::Seconds(60);
  // Told, in a sentence, when a service has died or is back. Called on the supervisor's thread.
  std::function<void(const std::string&)> notify;
  // Ends the wait for readiness; may be null.
  const Interrupt* interrupt = nullptr;
};

// The three services as children of this process, with their output in STATE/log. One that dies is
// started again on the same port, after a back-off that grows from 0.2 s to 10 s. They die with
// this process, however it ends. Holds the state folder's lock. Thread-safe.
class LocalServices {
 public:
  // Returns when all are ready. ALREADY_EXISTS: another process holds the state folder.
  // UNAVAILABLE: a program is missing, ended or was not ready in time; the message holds the end of
  // its log. CANCELLED: interrupted.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<LocalServices>> Start(
      const LocalServicesOptions& options);
  // Drains.
  ~LocalServices();
  LocalServices(const LocalServices&) = delete;
  LocalServices& operator=(const LocalServices&) = delete;

  ServiceAddresses addresses() const;

  // SIGTERM to the orchestrator, then to the others, each given the drain time; then SIGKILL.
  // Idempotent.
  void Drain();

 private:
  class Supervisor;
  LocalServices(std::unique_ptr<StateLock> lock, std::unique_ptr<Supervisor> supervisor);
  // Outlives the supervisor.
  std::unique_ptr<StateLock> lock_;
  std::unique_ptr<Supervisor> supervisor_;
};

// The body of the hidden command that services are started through: asks the kernel to kill this
// process when `argv[0]`, its parent's process id, has died, and becomes the program argv[1...].
// Returns only on failure, with an exit code.
int RunService(int argc, char** argv);
inline constexpr const char kRunServiceCommand[] = "__service";

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_LAUNCH_LOCAL_SERVICES_H_
