#ifndef KERNELCAST_COMMON_BASE_FILE_H_
#define KERNELCAST_COMMON_BASE_FILE_H_

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace kernelcast {

inline constexpr int64_t kAnySize = std::numeric_limits<int64_t>::max();

// Returns the content of a file. NOT_FOUND: no such file. INVALID_ARGUMENT: it has more than
// `max_bytes`. Other errors follow errno. The message names the path.
[[nodiscard]] absl::StatusOr<std::string> ReadFile(const std::string& path,
                                                   int64_t max_bytes = kAnySize);
// As ReadFile, without a byte order mark. For files that people write.
[[nodiscard]] absl::StatusOr<std::string> ReadTextFile(const std::string& path,
                                                       int64_t max_bytes = kAnySize);

// Creates a folder and its parents. Does nothing if it exists, or if the path is empty.
[[nodiscard]] absl::Status MakeFolders(const std::string& folder);

// Writes a file with an OutputFile (output_file.h), so that readers never see partial content.
// Errors are those of OutputFile; the file is then unchanged.
[[nodiscard]] absl::Status ReplaceFile(const std::string& path, std::string_view content);
// As ReplaceFile, but creates the folder first.
[[nodiscard]] absl::Status WriteFileAtomically(const std::string& path, std::string_view content);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_BASE_FILE_H_
