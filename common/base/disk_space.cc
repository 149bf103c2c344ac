#include "common/base/disk_space.h"

#include <filesystem>
#include <system_error>

namespace kernelcast {

std::optional<DiskSpace> DiskSpaceOf(const std::string& folder) {
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(folder, error);
  if (error || space.capacity == 0) return std::nullopt;
  return DiskSpace{space.capacity, space.available};
}

}  // namespace kernelcast
