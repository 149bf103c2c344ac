#ifndef KERNELCAST_COMMON_BASE_PATH_H_
#define KERNELCAST_COMMON_BASE_PATH_H_

#include <filesystem>
#include <string>
#include <system_error>

namespace kernelcast {

// Returns the absolute form of a path, for a program that runs in another folder. Returns "" and
// paths that cannot be resolved unchanged.
inline std::string AbsolutePath(const std::string& path) {
  std::error_code ignored;
  const std::filesystem::path absolute = std::filesystem::absolute(path, ignored);
  return path.empty() || absolute.empty() ? path : absolute.string();
}

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_BASE_PATH_H_
