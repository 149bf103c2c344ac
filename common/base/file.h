#ifndef KERNELCAST_COMMON_BASE_FILE_H_
#define KERNELCAST_COMMON_BASE_FILE_H_

#include <string>

#include "absl/status/statusor.h"

namespace kernelcast {

// Returns the content of a file. NOT_FOUND: no such file. Other errors follow errno. The message
// names the path.
[[nodiscard]] absl::StatusOr<std::string> ReadFile(const std::string& path);
// The same for a file that people write: without a byte order mark.
[[nodiscard]] absl::StatusOr<std::string> ReadTextFile(const std::string& path);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_BASE_FILE_H_
