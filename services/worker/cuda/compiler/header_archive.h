#ifndef KERNELCAST_SERVICES_WORKER_CUDA_COMPILER_HEADER_ARCHIVE_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_COMPILER_HEADER_ARCHIVE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/worker/core/source_scan.h"
#include "services/worker/cuda/compiler/wire.h"

namespace kernelcast::worker {

// A folder of headers of another package, such as "cutlass" in "/usr/lib/cutlass/include". The
// folder's name is part of the headers' names.
struct HeaderFolder {
  std::string root;
  std::string name;
};

// The toolkit's device headers in one block of memory that compilers map, so that they need not
// open files. Also contains the parts of a few standard headers that device code needs, for sources
// written for nvcc. Thread-safe.
class HeaderArchive {
 public:
  // Reads the headers below a toolkit's include folder, those of packages, and from
  // `more_directories` the toolkit's headers that the first folder lacks. NOT_FOUND: a folder has
  // none. UNAVAILABLE: out of memory or descriptors.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<HeaderArchive>> Read(
      const std::string& include_directory, std::span<const HeaderFolder> packages = {},
      std::span<const std::string> more_directories = {});
  ~HeaderArchive();
  HeaderArchive(const HeaderArchive&) = delete;
  HeaderArchive& operator=(const HeaderArchive&) = delete;

  // Descriptor of the memory, which is sealed against writing. Closed by the destructor.
  int fd() const { return fd_; }
  // Hash of the content: 32 hex digits.
  const std::string& hash() const { return hash_; }
  size_t size() const { return files_.size(); }
  bool Has(std::string_view name) const { return by_name_.count(name) > 0; }
  std::optional<std::string_view> Text(std::string_view name) const;

  // Returns the headers that `included` reach, directly or indirectly and regardless of conditional
  // compilation, under each name that includes them. Names that are not in the archive are left
  // out.
  std::vector<compiler_wire::NamedHeader> Reach(std::span<const IncludedFile> included) const;

 private:
  struct File {
    std::string name;
    uint64_t offset = 0;
    uint64_t size = 0;
  };

  HeaderArchive() = default;
  const std::vector<IncludedFile>& IncludesOf(size_t file) const;
  std::optional<size_t> Find(const IncludedFile& included, const std::string* includer) const;

  // Constant after construction.
  int fd_ = -1;
  const char* memory_ = nullptr;
  uint64_t memory_bytes_ = 0;
  std::string hash_;
  std::vector<File> files_;
  std::map<std::string, size_t, std::less<>> by_name_;

  mutable std::mutex mutex_;
  // By file, computed on demand; protected by mutex_.
  mutable std::map<size_t, std::vector<IncludedFile>> includes_;
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_COMPILER_HEADER_ARCHIVE_H_
