#include "common/process/memory_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace kernelcast {
namespace {

// Whole huge pages, where the system grants them: placement in the caches then varies less between
// processes.
constexpr int64_t kHugePage = int64_t{2} << 20;
constexpr int64_t kPage = 4096;

absl::Status Failed(const char* what) {
  return absl::ResourceExhaustedError(
      absl::StrCat("shared memory: ", what, ": ", std::strerror(errno)));
}

}  // namespace

absl::StatusOr<MemoryFile> MemoryFile::Create(const char* name, int64_t bytes, Sharing sharing) {
  MemoryFile file;
  const int64_t unit = bytes >= kHugePage ? kHugePage : kPage;
  file.size_ = (bytes + unit - 1) / unit * unit;
  if (file.size_ == 0) {
    file.size_ = kPage;
  }
  file.fd_ = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (file.fd_ < 0) {
    return Failed("memfd_create");
  }
  if (ftruncate(file.fd_, file.size_) != 0) {
    return Failed("ftruncate");
  }
  void* data = mmap(nullptr, static_cast<size_t>(file.size_), PROT_READ | PROT_WRITE, MAP_SHARED,
                    file.fd_, 0);
  if (data == MAP_FAILED) {
    return Failed("mmap");
  }
  file.data_ = static_cast<std::byte*>(data);
  madvise(data, static_cast<size_t>(file.size_), MADV_HUGEPAGE);
  int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  if (sharing == Sharing::kReadOnly) {
    seals |= F_SEAL_FUTURE_WRITE;
  }
  if (fcntl(file.fd_, F_ADD_SEALS, seals) != 0) {
    return Failed("sealing");
  }
  return file;
}

absl::StatusOr<MemoryFile> MemoryFile::FromContent(const char* name, std::string_view content) {
  MemoryFile file;
  file.size_ = static_cast<int64_t>(content.size());
  file.fd_ = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (file.fd_ < 0) {
    return Failed("memfd_create");
  }
  size_t written = 0;
  while (written < content.size()) {
    const ssize_t put = write(file.fd_, content.data() + written, content.size() - written);
    if (put < 0 && errno == EINTR) {
      continue;
    }
    if (put <= 0) {
      return Failed("write");
    }
    written += static_cast<size_t>(put);
  }
  if (fcntl(file.fd_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) != 0) {
    return Failed("sealing");
  }
  return file;
}

MemoryFile::~MemoryFile() { Close(); }

MemoryFile::MemoryFile(MemoryFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      size_(std::exchange(other.size_, 0)),
      data_(std::exchange(other.data_, nullptr)) {}

MemoryFile& MemoryFile::operator=(MemoryFile&& other) noexcept {
  if (this != &other) {
    Close();
    fd_ = std::exchange(other.fd_, -1);
    size_ = std::exchange(other.size_, 0);
    data_ = std::exchange(other.data_, nullptr);
  }
  return *this;
}

void MemoryFile::Close() {
  if (data_ != nullptr) {
    munmap(data_, static_cast<size_t>(size_));
  }
  if (fd_ >= 0) {
    close(fd_);
  }
}

}  // namespace kernelcast
