#ifndef KERNELCAST_COMMON_BASE_DISK_SPACE_H_
#define KERNELCAST_COMMON_BASE_DISK_SPACE_H_

#include <cstdint>
#include <optional>
#include <string>

namespace kernelcast {

// Space on a file system.
struct DiskSpace {
  uint64_t total_bytes = 0;
  uint64_t free_bytes = 0;  // for processes that are not root
};

// The space on the file system with this folder. Nothing: the system does not say, or there is no
// such folder.
std::optional<DiskSpace> DiskSpaceOf(const std::string& folder);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_BASE_DISK_SPACE_H_
