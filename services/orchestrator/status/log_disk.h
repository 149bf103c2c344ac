#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_STATUS_LOG_DISK_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_STATUS_LOG_DISK_H_

#include <cstdint>
#include <optional>
#include <string>

namespace kernelcast::orchestrator {

// Space on the file system that contains the event log.
struct LogDisk {
  uint64_t total_bytes = 0;
  uint64_t free_bytes = 0;  // for processes that are not root

  // Whether the status page warns.
  bool low() const;
};

// Nothing: the system does not say.
std::optional<LogDisk> LookAtLogDisk(const std::string& folder);

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_STATUS_LOG_DISK_H_
