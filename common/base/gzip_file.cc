#include "common/base/gzip_file.h"

#include <zlib.h>

#include <array>
#include <cerrno>
#include <iterator>
#include <memory>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/base/utf8.h"

namespace kernelcast {
namespace {

constexpr size_t kChunkBytes = 1 << 16;

absl::Status CannotRead(const std::string& path, int error) {
  return absl::ErrnoToStatus(error, absl::StrCat("cannot read ", path));
}

// Calls `on_chunk` with the content, piece by piece, until it returns an error.
absl::Status ForEachChunk(const std::string& path, bool bound_plain, int64_t max_bytes,
                          const std::function<absl::Status(std::string_view chunk)>& on_chunk) {
  errno = 0;
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), &gzclose);
  if (file == nullptr) return CannotRead(path, errno != 0 ? errno : ENOMEM);
  std::array<char, kChunkBytes> chunk;
  int64_t bytes = 0;
  int count = 0;
  while ((count = gzread(file.get(), chunk.data(), static_cast<unsigned>(chunk.size()))) > 0) {
    bytes += count;
    if (bytes > max_bytes && (bound_plain || gzdirect(file.get()) == 0)) {
      return absl::ResourceExhaustedError(
          absl::StrCat(path, " holds more than ", max_bytes, " bytes, uncompressed"));
    }
    KC_RETURN_IF_ERROR(on_chunk({chunk.data(), static_cast<size_t>(count)}));
  }
  // Only gzerror reports a truncated file.
  int error = Z_OK;
  const char* const message = gzerror(file.get(), &error);
  if (error == Z_ERRNO) return CannotRead(path, errno);
  if (error != Z_OK && error != Z_STREAM_END) {
    return absl::DataLossError(absl::StrCat(path, " is damaged: ", message));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> ReadGzipFile(const std::string& path, int64_t max_bytes) {
  std::string content;
  KC_RETURN_IF_ERROR(
      ForEachChunk(path, /*bound_plain=*/true, max_bytes, [&content](std::string_view chunk) {
        content.append(chunk);
        return absl::OkStatus();
      }));
  return content;
}

absl::Status ForEachGzipLine(const std::string& path, const OnGzipLine& on_line, int64_t max_bytes,
                             int64_t max_line_bytes) {
  int64_t number = 1;
  std::string line;
  const auto end_line = [&] {
    if (number == 1) DropByteOrderMark(line);
    return on_line(number, line);
  };
  const auto on_chunk = [&](std::string_view chunk) -> absl::Status {
    for (;;) {
      const size_t end = chunk.find('\n');
      const std::string_view part = chunk.substr(0, end);
      if (std::ssize(line) + std::ssize(part) > max_line_bytes) {
        return absl::InvalidArgumentError(
            absl::StrCat(path, ":", number, ": a line of more than ", max_line_bytes, " bytes"));
      }
      line.append(part);
      if (end == std::string_view::npos) return absl::OkStatus();
      KC_RETURN_IF_ERROR(end_line());
      ++number;
      line.clear();
      chunk.remove_prefix(end + 1);
    }
  };
  KC_RETURN_IF_ERROR(ForEachChunk(path, /*bound_plain=*/false, max_bytes, on_chunk));
  return line.empty() ? absl::OkStatus() : end_line();
}

absl::Status ForEachGzipRecord(
    const std::string& path,
    const std::function<absl::Status(const std::string& line)>& on_record) {
  return ForEachGzipLine(path, [&](int64_t number, const std::string& line) -> absl::Status {
    if (IsBlank(line)) return absl::OkStatus();
    return WithPrefix(absl::StrCat(path, ":", number, ": "), on_record(line));
  });
}

bool IsRecordFile(std::string_view path) {
  return path.ends_with(".jsonl") || path.ends_with(".jsonl.gz");
}

}  // namespace kernelcast
