#ifndef KERNELCAST_COMMON_DOMAIN_PROBLEM_FILES_H_
#define KERNELCAST_COMMON_DOMAIN_PROBLEM_FILES_H_

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/domain/problem.h"
#include "common/domain/yaml_cursor.h"

namespace kernelcast {

// Source of the contents of a problem's files.
class FileSource {
 public:
  virtual ~FileSource() = default;
  // The error describes the file without naming it.
  [[nodiscard]] virtual absl::StatusOr<std::string> Read(const std::string& path) = 0;
};

// Files sent with a call.
class GivenFiles final : public FileSource {
 public:
  // INVALID_ARGUMENT: the path is unfit or occurs twice.
  [[nodiscard]] absl::Status Add(ProblemFile file);
  absl::StatusOr<std::string> Read(const std::string& path) override;
  const std::map<std::string, std::string>& files() const { return files_; }

 private:
  std::map<std::string, std::string> files_;
};

// Files of a folder on disk. Links do not lead out of it.
class FolderFiles final : public FileSource {
 public:
  // `folder` is canonical.
  explicit FolderFiles(std::filesystem::path folder) : folder_(std::move(folder)) {}

  absl::StatusOr<std::string> Read(const std::string& path) override;

 private:
  const std::filesystem::path folder_;
};

// Reads the files that a problem names, each once, and bounds their size. Not thread-safe.
class ProblemFileReader {
 public:
  // `source` must outlive the reader.
  explicit ProblemFileReader(FileSource& source) : source_(source) {}

  // Reads a file. The error does not name it.
  [[nodiscard]] absl::StatusOr<std::string> ReadWhole(const std::string& path);

  // Reads the file that a value names, relative to `folder` ("" or ending in '/'). Errors name the
  // value's position. `path` returns the path in the problem's folder.
  [[nodiscard]] absl::StatusOr<std::string> ReadNamed(const Cursor& at, const std::string& folder,
                                                      std::string& path);
  // The same for source code, which must be text and not empty.
  [[nodiscard]] absl::StatusOr<std::string> ReadSource(const Cursor& at, const std::string& folder,
                                                       std::string& path,
                                                       int64_t max_bytes = kMaxSourceBytes);

  // By path.
  const std::map<std::string, std::string>& files_read() const { return files_; }

 private:
  FileSource& source_;
  std::map<std::string, std::string> files_;
  int64_t total_bytes_ = 0;
};

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_DOMAIN_PROBLEM_FILES_H_
