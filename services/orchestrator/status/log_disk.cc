#include "services/orchestrator/status/log_disk.h"

#include <filesystem>
#include <system_error>

namespace kernelcast::orchestrator {
namespace {

// A tenth of a large disk is plenty.
constexpr uint64_t kPlentyBytes = uint64_t{20} << 30;

}  // namespace

bool LogDisk::low() const { return free_bytes < total_bytes / 10 && free_bytes < kPlentyBytes; }

std::optional<LogDisk> LookAtLogDisk(const std::string& folder) {
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(folder, error);
  if (error || space.capacity == 0) return std::nullopt;
  return LogDisk{space.capacity, space.available};
}

}  // namespace kernelcast::orchestrator
