#include "common/base/file.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/base/utf8.h"

namespace kernelcast {
namespace {

constexpr size_t kChunkBytes = 1 << 16;

absl::Status CannotRead(const std::string& path) {
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", path));
}

bool Write(const std::string& path, std::string_view content) {
  std::FILE* const file = std::fopen(path.c_str(), "we");
  if (file == nullptr) return false;
  const bool written = std::fwrite(content.data(), 1, content.size(), file) == content.size();
  return std::fclose(file) == 0 && written;
}

}  // namespace

absl::StatusOr<std::string> ReadFile(const std::string& path, int64_t max_bytes) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"),
                                                             &std::fclose);
  if (file == nullptr) return CannotRead(path);
  std::string content;
  std::array<char, kChunkBytes> chunk;
  size_t count = 0;
  while ((count = std::fread(chunk.data(), 1, chunk.size(), file.get())) > 0) {
    content.append(chunk.data(), count);
    if (static_cast<int64_t>(content.size()) > max_bytes) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": larger than ", max_bytes, " bytes, the most that is allowed"));
    }
  }
  if (std::ferror(file.get()) != 0) return CannotRead(path);
  return content;
}

absl::StatusOr<std::string> ReadTextFile(const std::string& path, int64_t max_bytes) {
  KC_ASSIGN_OR_RETURN(std::string content, ReadFile(path, max_bytes));
  DropByteOrderMark(content);
  return content;
}

absl::Status MakeFolders(const std::string& folder) {
  if (folder.empty()) return absl::OkStatus();
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (!error) return absl::OkStatus();
  return absl::ErrnoToStatus(error.value(), absl::StrCat("cannot make the folder ", folder));
}

absl::Status ReplaceFile(const std::string& path, std::string_view content) {
  const std::string temporary = absl::StrCat(path, ".", static_cast<int>(getpid()), ".partial");
  if (Write(temporary, content) && std::rename(temporary.c_str(), path.c_str()) == 0) {
    return absl::OkStatus();
  }
  const int code = errno;
  std::remove(temporary.c_str());
  return absl::ErrnoToStatus(code, absl::StrCat("cannot write ", path));
}

absl::Status WriteFileAtomically(const std::string& path, std::string_view content) {
  KC_RETURN_IF_ERROR(MakeFolders(std::filesystem::path(path).parent_path().string()));
  return ReplaceFile(path, content);
}

}  // namespace kernelcast
