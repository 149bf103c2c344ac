#ifndef KERNELCAST_COMMON_PROCESS_MEMORY_FILE_H_
#define KERNELCAST_COMMON_PROCESS_MEMORY_FILE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace kernelcast {

// Anonymous memory that can be shared with a child through its descriptor. Movable;
// thread-compatible.
class MemoryFile {
 public:
  enum class Sharing {
    kReadWrite,
    // Processes that map it later can only read it.
    kReadOnly,
  };

  // Zeroed, mapped, and rounded up to whole pages. RESOURCE_EXHAUSTED: out of memory or
  // descriptors.
  [[nodiscard]] static absl::StatusOr<MemoryFile> Create(const char* name, int64_t bytes,
                                                         Sharing sharing);
  // Contains `content`. Not mapped and sealed against changes.
  [[nodiscard]] static absl::StatusOr<MemoryFile> FromContent(const char* name,
                                                              std::string_view content);

  MemoryFile() = default;
  ~MemoryFile();
  MemoryFile(MemoryFile&& other) noexcept;
  MemoryFile& operator=(MemoryFile&& other) noexcept;

  int fd() const { return fd_; }
  int64_t size() const { return size_; }
  std::byte* data() const { return data_; }
  std::span<std::byte> Span(uint64_t offset, int64_t bytes) const {
    return {data_ + offset, static_cast<size_t>(bytes)};
  }

 private:
  void Close();

  int fd_ = -1;
  int64_t size_ = 0;
  std::byte* data_ = nullptr;
};

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_PROCESS_MEMORY_FILE_H_
