#ifndef KERNELCAST_SERVICES_CLI_LAUNCH_STATE_LOCK_H_
#define KERNELCAST_SERVICES_CLI_LAUNCH_STATE_LOCK_H_

#include <sys/types.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace kernelcast::cli {

// Prevents two sets of services on one state folder. Held until it is destroyed or the process
// ends.
class StateLock {
 public:
  // Creates the folder if it is missing. ALREADY_EXISTS: another process holds it; the message
  // names the process. Other errors as MakeFolders.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<StateLock>> Acquire(
      const std::string& state_dir);
  ~StateLock();
  StateLock(const StateLock&) = delete;
  StateLock& operator=(const StateLock&) = delete;

 private:
  explicit StateLock(int fd) : fd_(fd) {}
  int fd_;
};

// Addresses of the services of one state folder, written by the holder of its lock.
struct ServiceAddresses {
  pid_t supervisor = 0;
  std::string orchestrator;
  std::string worker;
  std::string forecaster;
  // "host:port" of the Prometheus endpoints; empty if there is none.
  std::string orchestrator_metrics;
  std::string worker_metrics;
  std::string forecaster_metrics;
  // "host:port" of the orchestrator's status page; empty if there is none.
  std::string orchestrator_status;
  // "host:port" of the history page; empty if there is none.
  std::string history;
  // The addresses of the HTTP gateway; empty if none runs.
  std::string gateway;
  std::string gateway_metrics;
};

// The addresses with their names in JSON.
struct AddressField {
  const char* name;
  std::string ServiceAddresses::*address;
};
inline constexpr AddressField kAddressFields[] = {
    {"orchestrator", &ServiceAddresses::orchestrator},
    {"worker", &ServiceAddresses::worker},
    {"forecaster", &ServiceAddresses::forecaster},
    {"orchestrator_metrics", &ServiceAddresses::orchestrator_metrics},
    {"worker_metrics", &ServiceAddresses::worker_metrics},
    {"forecaster_metrics", &ServiceAddresses::forecaster_metrics},
    {"orchestrator_status", &ServiceAddresses::orchestrator_status},
    {"history", &ServiceAddresses::history},
    {"gateway", &ServiceAddresses::gateway},
    {"gateway_metrics", &ServiceAddresses::gateway_metrics},
};

[[nodiscard]] absl::Status WriteServiceAddresses(const std::string& state_dir,
                                                 const ServiceAddresses& addresses);
void RemoveServiceAddresses(const std::string& state_dir);
// NOT_FOUND: no services run, or they are still starting.
[[nodiscard]] absl::StatusOr<ServiceAddresses> ReadServiceAddresses(const std::string& state_dir);

// Whether any process holds the lock.
bool StateIsLocked(const std::string& state_dir);

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_LAUNCH_STATE_LOCK_H_
