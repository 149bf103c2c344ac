#include "common/base/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace kernelcast {
namespace {

absl::Status CannotWrite(const std::string& path) {
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", path));
}

constexpr int kMostLinks = 40;

// Where a path leads.
struct Destination {
  std::string path;     // behind symbolic links
  int descriptor = -1;  // an open descriptor of this process that the path names, such as /dev/fd/3
};

Destination Follow(const std::string& path) {
  namespace fs = std::filesystem;
  if (path == "-") return {path, STDOUT_FILENO};
  Destination found{path};
  std::error_code error;
  for (int i = 0; i < kMostLinks; ++i) {
    const fs::path at(found.path);
    if (!fs::is_symlink(fs::symlink_status(at, error))) break;
    const fs::path folder = fs::canonical(at.has_parent_path() ? at.parent_path() : ".", error);
    const std::string name = at.filename().string();
    // Its links name no path where the descriptor is a pipe or a deleted file.
    if (folder == absl::StrCat("/proc/", getpid(), "/fd")) {
      found.descriptor = std::atoi(name.c_str());
      break;
    }
    const fs::path next = fs::read_symlink(at, error);
    if (error) break;
    found.path = next.is_absolute() ? next.string() : (folder / next).string();
  }
  return found;
}

}  // namespace

absl::StatusOr<std::unique_ptr<OutputFile>> OutputFile::Open(const std::string& path) {
  const Destination to = Follow(path);
  struct stat info {};
  if (to.descriptor < 0 && lstat(to.path.c_str(), &info) == 0 && S_ISLNK(info.st_mode)) {
    errno = ELOOP;
    return CannotWrite(path);
  }
  const bool through =
      to.descriptor >= 0 || (stat(to.path.c_str(), &info) == 0 && !S_ISREG(info.st_mode));
  const std::string temporary =
      through ? "" : absl::StrCat(to.path, ".", static_cast<int>(getpid()), ".partial");
  std::FILE* file = nullptr;
  if (to.descriptor >= 0) {
    const int copy = fcntl(to.descriptor, F_DUPFD_CLOEXEC, 0);
    if (copy >= 0) file = fdopen(copy, "w");
  } else {
    file = std::fopen(through ? to.path.c_str() : temporary.c_str(), "we");
  }
  if (file == nullptr) return CannotWrite(path == "-" ? "to standard output" : path);
  return std::unique_ptr<OutputFile>(new OutputFile(path, to.path, temporary, file));
}

OutputFile::~OutputFile() {
  if (file_ == nullptr) return;
  std::fclose(file_);
  if (!temporary_.empty()) std::remove(temporary_.c_str());
}

absl::Status OutputFile::Failed() const {
  const absl::Status reason = absl::ErrnoToStatus(errno, "");
  return absl::ResourceExhaustedError(
      absl::StrCat("cannot write ", path_ == "-" ? "to standard output" : path_, reason.message()));
}

absl::Status OutputFile::Write(std::string_view content) {
  return std::fwrite(content.data(), 1, content.size(), file_) == content.size() ? absl::OkStatus()
                                                                                 : Failed();
}

absl::Status OutputFile::Commit() {
  // A write that was buffered may have failed before this.
  const bool good = std::fflush(file_) == 0 && std::ferror(file_) == 0;
  const absl::Status flushed = good ? absl::OkStatus() : Failed();
  const bool closed = std::fclose(std::exchange(file_, nullptr)) == 0;
  if (good && closed &&
      (temporary_.empty() || std::rename(temporary_.c_str(), target_.c_str()) == 0)) {
    return absl::OkStatus();
  }
  const absl::Status failed = good ? Failed() : flushed;
  if (!temporary_.empty()) std::remove(temporary_.c_str());
  return failed;
}

}  // namespace kernelcast
