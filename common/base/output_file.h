#ifndef KERNELCAST_COMMON_BASE_OUTPUT_FILE_H_
#define KERNELCAST_COMMON_BASE_OUTPUT_FILE_H_

#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace kernelcast {

// Writes a file that appears under its name only when it is complete: a temporary file in the same
// folder that is renamed. Writes straight through to "-", which is standard output, and to a path
// that exists and is no regular file, such as a device or a FIFO. Follows symbolic links, and keeps
// them. Not thread-safe.
class OutputFile {
 public:
  // Waits for a reader if the path is a FIFO. Errors follow errno and name the path.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<OutputFile>> Open(const std::string& path);
  // Discards what was written to a file without Commit.
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  // RESOURCE_EXHAUSTED: it cannot be written. The message names the path and the reason.
  [[nodiscard]] absl::Status Write(std::string_view content);
  // Call it once, at the end. Errors as Write; the file is then unchanged.
  [[nodiscard]] absl::Status Commit();

 private:
  OutputFile(std::string path, std::string target, std::string temporary, std::FILE* file)
      : path_(std::move(path)),
        target_(std::move(target)),
        temporary_(std::move(temporary)),
        file_(file) {}
  absl::Status Failed() const;  // by errno

  const std::string path_;       // as given
  const std::string target_;     // behind symbolic links
  const std::string temporary_;  // empty: written straight through
  std::FILE* file_;              // null once committed
};

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_BASE_OUTPUT_FILE_H_
