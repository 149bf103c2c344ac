#ifndef KERNELCAST_COMMON_BASE_FILE_H_
#define KERNELCAST_COMMON_BASE_FILE_H_

#include <string>

#include "absl/status/statusor.h"

namespace kernelcast {

// All that a file holds, as it is. NOT_FOUND: there is none; others as errno says. The message
// names the path.
[[nodiscard]] absl::StatusOr<std::string> ReadFile(const std::string& path);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_BASE_FILE_H_
