#include "common/base/file.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <memory>

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

}  // namespace

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"),
                                                             &std::fclose);
  if (file == nullptr) return CannotRead(path);
  std::string content;
  std::array<char, kChunkBytes> chunk;
  size_t count = 0;
  while ((count = std::fread(chunk.data(), 1, chunk.size(), file.get())) > 0) {
    content.append(chunk.data(), count);
  }
  if (std::ferror(file.get()) != 0) return CannotRead(path);
  return content;
}

absl::StatusOr<std::string> ReadTextFile(const std::string& path) {
  KC_ASSIGN_OR_RETURN(std::string content, ReadFile(path));
  DropByteOrderMark(content);
  return content;
}

}  // namespace kernelcast
