#include "common/base/gzip_file.h"

#include <zlib.h>

#include <array>
#include <cerrno>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace kernelcast {
namespace {

constexpr size_t kChunkBytes = 1 << 16;

absl::Status CannotRead(const std::string& path, int error) {
  return absl::ErrnoToStatus(error, absl::StrCat("cannot read ", path));
}

}  // namespace

absl::StatusOr<std::string> ReadGzipFile(const std::string& path) {
  errno = 0;
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), &gzclose);
  if (file == nullptr) return CannotRead(path, errno != 0 ? errno : ENOMEM);
  std::string content;
  std::array<char, kChunkBytes> chunk;
  int count = 0;
  while ((count = gzread(file.get(), chunk.data(), static_cast<unsigned>(chunk.size()))) > 0) {
    content.append(chunk.data(), static_cast<size_t>(count));
  }
  // A file that ends early is told of by gzerror alone.
  int error = Z_OK;
  const char* const message = gzerror(file.get(), &error);
  if (error == Z_ERRNO) return CannotRead(path, errno);
  if (error != Z_OK && error != Z_STREAM_END) {
    return absl::DataLossError(absl::StrCat(path, " is damaged: ", message));
  }
  return content;
}

}  // namespace kernelcast
