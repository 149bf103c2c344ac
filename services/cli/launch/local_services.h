#ifndef KERNELCAST_SERVICES_CLI_LAUNCH_LOCAL_SERVICES_H_
#define KERNELCAST_SERVICES_CLI_LAUNCH_LOCAL_SERVICES_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "services/cli/core/paths.h"
#include "services/cli/launch/interrupt.h"
#include "services/cli/launch/state_lock.h"

namespace kernelcast::cli {

struct LocalServicesOptions {
  std::string state_dir;
  // Folder of the services' programs.
  std::string program_folder;
  std::string orchestrator_listen = "127.0.0.1:0";
  // Reuse the other addresses of the last start on the state folder, if they are free.
  bool keep_addresses = false;
  // Recorded measurements that the worker answers from; empty: it measures.
  std::string replay_file;
  // Additional arguments for all services, then for each one.
  std::vector<std::string> service_arguments;
  std::vector<std::string> worker_arguments;
  std::vector<std::string> forecaster_arguments;
  std::vector<std::string> orchestrator_arguments;
  std::vector<std::string> gateway_arguments;
  // Passed on to the orchestrator until it has been ready once: a restart must not lose more.
  bool accept_loss = false;
  std::string log_level = "info";
  // Which services to start; the orchestrator needs both others.
  bool with_worker = true;
  bool with_forecaster = true;
  bool with_orchestrator = true;
  // Starts the orchestrator alone, which reads the log and answers questions about it. The state
  // folder is not changed and not locked, and others do not see this orchestrator. The flags above
  // do not count.
  bool read_only = false;
  // The HTTP gateway, in front of the orchestrator, which it needs.
  bool with_gateway = false;
  std::string gateway_listen = "127.0.0.1:0";
  // Serves the history page from this process, at an address of 127.0.0.1 with port 0 or that of
  // the last start, and returns the address as bound. Called once, on the supervisor's thread,
  // before the orchestrator starts, which links to the page. Empty: no page.
  std::function<absl::StatusOr<std::string>(const std::string& address)> serve_history;
  // How long each service may take to finish requests in flight.
  absl::Duration drain = absl::Seconds(20);
  // How long a service may take to become ready.
  absl::Duration start_timeout = absl::Seconds(60);
  // Called with a sentence when a service has died or is back, on the supervisor's thread.
  std::function<void(const std::string&)> notify;
  // An interrupt ends the wait for readiness; may be null.
  const Interrupt* interrupt = nullptr;
  // Whether the services keep the drain time after an interrupt. By default they are killed a
  // moment later: their state is on disk, and the user waits.
  bool drain_after_interrupt = false;
};

// The services as child processes, with their output in STATE/log. A service that dies is
// restarted on the same port, after a back-off that grows from 0.2 s to 10 s. The services die with
// this process, however it ends. Holds the state folder's lock, unless it only reads. Thread-safe.
class LocalServices {
 public:
  // Returns when all services are ready. ALREADY_EXISTS: another process holds the state folder.
  // UNAVAILABLE: a program is missing, ended, or was not ready in time; the message includes the
  // end of its log. CANCELLED: interrupted.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<LocalServices>> Start(
      const LocalServicesOptions& options);
  // Drains the services.
  ~LocalServices();
  LocalServices(const LocalServices&) = delete;
  LocalServices& operator=(const LocalServices&) = delete;

  ServiceAddresses addresses() const;

  // Sends SIGTERM to the gateway, to the orchestrator, then to the others, each with the drain
  // time, or a moment after an interrupt; then SIGKILL. Idempotent.
  void Drain();

 private:
  class Supervisor;
  LocalServices(std::unique_ptr<StateLock> lock, std::unique_ptr<ScratchFolder> scratch,
                std::unique_ptr<Supervisor> supervisor);
  // Both must outlive the supervisor.
  std::unique_ptr<StateLock> lock_;         // null if it only reads
  std::unique_ptr<ScratchFolder> scratch_;  // null unless it only reads
  std::unique_ptr<Supervisor> supervisor_;
};

// Implements the hidden command that starts services: asks the kernel to kill this process when its
// parent, whose process id is `argv[0]`, dies, then executes argv[1...]. Returns an exit code only
// on failure.
int RunService(int argc, char** argv);
inline constexpr const char kRunServiceCommand[] = "__service";

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_LAUNCH_LOCAL_SERVICES_H_
