#ifndef KERNELCAST_COMMON_BASE_GZIP_FILE_H_
#define KERNELCAST_COMMON_BASE_GZIP_FILE_H_

#include <string>

#include "absl/status/statusor.h"

namespace kernelcast {

// What gzip made the file from; of a file that gzip has not made, all that it holds. Errors as
// of ReadFile; DATA_LOSS: it is damaged, or ends early.
[[nodiscard]] absl::StatusOr<std::string> ReadGzipFile(const std::string& path);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_BASE_GZIP_FILE_H_
