#ifndef KERNELCAST_COMMON_BASE_FILE_H_
#define KERNELCAST_COMMON_BASE_FILE_H_

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace kernelcast {

// Returns the content of a file. NOT_FOUND: no such file. INVALID_ARGUMENT: it has more than
// `max_bytes`. Other errors follow errno. The message names the path.
inline constexpr int64_t kAnySize = std::numeric_limits<int64_t>::max();
[[nodiscard]] absl::StatusOr<std::string> ReadFile(const std::string& path,
                                                   int64_t max_bytes = kAnySize);
// The same for a file that people write: without a byte order mark.
[[nodiscard]] absl::StatusOr<std::string> ReadTextFile(const std::string& path,
                                                       int64_t max_bytes = kAnySize);

// Makes a folder with those above it, unless it exists. Empty: does nothing.
[[nodiscard]] absl::Status MakeFolders(const std::string& folder);

// Writes a file by way of another one in the same folder, so that readers never see a part of it.
// Errors follow errno and name the path; the file is then as before.
[[nodiscard]] absl::Status ReplaceFile(const std::string& path, std::string_view content);
// The same. Makes the folder.
[[nodiscard]] absl::Status WriteFileAtomically(const std::string& path, std::string_view content);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_BASE_FILE_H_
