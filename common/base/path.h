#ifndef KERNELCAST_COMMON_BASE_PATH_H_
#define KERNELCAST_COMMON_BASE_PATH_H_

#include <filesystem>
#include <string>
#include <system_error>

namespace kernelcast {

// The path from the root, for a program that runs in another folder; "" and what cannot be resolved
// as they are.
inline std::string AbsolutePath(const std::string& path) {
  std::error_code ignored;
  const std::filesystem::path absolute = std::filesystem::absolute(path, ignored);
  return path.empty() || absolute.empty() ? path : absolute.string();
}

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_BASE_PATH_H_
