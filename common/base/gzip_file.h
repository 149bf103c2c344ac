#ifndef KERNELCAST_COMMON_BASE_GZIP_FILE_H_
#define KERNELCAST_COMMON_BASE_GZIP_FILE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace kernelcast {

// Returns the decompressed content of a gzip file, or the content of any other file unchanged.
// Errors as in ReadFile. DATA_LOSS: the file is damaged or truncated. RESOURCE_EXHAUSTED: the
// content exceeds `max_bytes`, which guards against decompression bombs.
inline constexpr int64_t kMaxGzipBytes = int64_t{1} << 30;
[[nodiscard]] absl::StatusOr<std::string> ReadGzipFile(const std::string& path,
                                                       int64_t max_bytes = kMaxGzipBytes);

// Calls `on_line` with each line, without its end (and a byte order mark), and its number from 1.
// Stops at its first error and returns it. Reads as it goes: a file that gzip has not made may have
// any size. Errors as of ReadGzipFile; INVALID_ARGUMENT, with the line's number: it has more than
// `max_line_bytes`.
using OnGzipLine = std::function<absl::Status(int64_t number, const std::string& line)>;
inline constexpr int64_t kMaxGzipLineBytes = int64_t{64} << 20;
[[nodiscard]] absl::Status ForEachGzipLine(const std::string& path, const OnGzipLine& on_line,
                                           int64_t max_bytes = kMaxGzipBytes,
                                           int64_t max_line_bytes = kMaxGzipLineBytes);

// Reads a file with one record per line: calls `on_record` with each line that is not blank, and
// puts "PATH:LINE: " in front of its errors. Other errors as ForEachGzipLine.
[[nodiscard]] absl::Status ForEachGzipRecord(
    const std::string& path, const std::function<absl::Status(const std::string& line)>& on_record);

// Returns whether the name ends with .jsonl or .jsonl.gz.
[[nodiscard]] bool IsRecordFile(std::string_view path);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_BASE_GZIP_FILE_H_
