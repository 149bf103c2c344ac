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

constexpr int64_t kHugePage = int64_t{2} << 20;
constexpr int64_t kPage = 4096;
// Files of at least this size use whole huge pages. With small pages, the physical placement, and
// with it the use of the CPU caches, varies from file to file.
constexpr int64_t kHugeFrom = int64_t{128} << 10;
// Since Linux 6.1. Older C libraries do not define them.
constexpr int kPopulateWrite = 23;
constexpr int kCollapse = 25;

absl::Status Failed(const char* what) {
  return absl::ResourceExhaustedError(
      absl::StrCat("shared memory: ", what, ": ", std::strerror(errno)));
}

// Maps at an address aligned for huge pages. Returns MAP_FAILED and sets errno on failure.
void* MapAligned(int fd, size_t bytes) {
  const size_t reserved = bytes + kHugePage;
  void* const start =
      mmap(nullptr, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (start == MAP_FAILED) {
    return MAP_FAILED;
  }
  auto* const first = static_cast<std::byte*>(start);
  const size_t skipped = (kHugePage - reinterpret_cast<uintptr_t>(first) % kHugePage) % kHugePage;
  void* const mapped =
      mmap(first + skipped, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
  if (mapped == MAP_FAILED) {
    munmap(start, reserved);
    return MAP_FAILED;
  }
  if (skipped > 0) {
    munmap(first, skipped);
  }
  munmap(first + skipped + bytes, kHugePage - skipped);
  return mapped;
}

}  // namespace

absl::StatusOr<MemoryFile> MemoryFile::Create(const char* name, int64_t bytes, Sharing sharing) {
  MemoryFile file;
  const int64_t unit = bytes >= kHugeFrom ? kHugePage : kPage;
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
  const auto size = static_cast<size_t>(file.size_);
  void* const data = unit == kHugePage
                         ? MapAligned(file.fd_, size)
                         : mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file.fd_, 0);
  if (data == MAP_FAILED) {
    return Failed("mmap");
  }
  file.data_ = static_cast<std::byte*>(data);
  if (unit == kHugePage) {
    // Requests huge pages on allocation. If the system does not provide them for files, collapses
    // the allocated pages. Both may fail.
    madvise(data, size, MADV_HUGEPAGE);
    if (madvise(data, size, kPopulateWrite) == 0) {
      madvise(data, size, kCollapse);
    }
  }
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
