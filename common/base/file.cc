#include "common/base/file.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/output_file.h"
#include "common/base/status.h"
#include "common/base/utf8.h"

namespace kernelcast {
namespace {

constexpr size_t kChunkBytes = 1 << 16;

absl::Status CannotRead(const std::string& path) {
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", path));
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
  KC_ASSIGN_OR_RETURN(const std::unique_ptr<OutputFile> file, OutputFile::Open(path));
  KC_RETURN_IF_ERROR(file->Write(content));
  return file->Commit();
}

absl::Status WriteFileAtomically(const std::string& path, std::string_view content) {
  KC_RETURN_IF_ERROR(MakeFolders(std::filesystem::path(path).parent_path().string()));
  return ReplaceFile(path, content);
}

}  // namespace kernelcast
