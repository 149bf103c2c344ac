#include "services/worker/sandbox/landlock.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace kernelcast::worker::sandbox {
namespace {

// Older system headers lack the definitions for newer kernels, so all of them are here.
constexpr uint32_t kAskVersion = 1;

struct Ruleset {
  uint64_t files = 0;
  uint64_t network = 0;  // from version 4
  uint64_t scopes = 0;   // from version 6
};

// All rights that a version knows are denied; rules give some back.
Ruleset AllOf(long version) {
  Ruleset rights;
  rights.files = (uint64_t{1} << 13) - 1;
  if (version >= 2) rights.files |= uint64_t{1} << 13;  // linking and renaming elsewhere
  if (version >= 3) rights.files |= uint64_t{1} << 14;  // truncating
  if (version >= 5) rights.files |= uint64_t{1} << 15;  // ioctl of devices
  if (version >= 4) rights.network = 3;                 // bind and connect TCP
  if (version >= 6) rights.scopes = 3;                  // abstract Unix sockets, signals
  return rights;
}

size_t SizeFor(long version) {
  return version >= 6   ? sizeof(Ruleset)
         : version >= 4 ? offsetof(Ruleset, scopes)
                        : offsetof(Ruleset, network);
}

constexpr int kPathBeneath = 1;

struct [[gnu::packed]] PathRule {
  uint64_t files = 0;
  int32_t folder_fd = -1;
};

// File rights, by their bits in Ruleset::files.
constexpr uint64_t kExecute = 1 << 0;
constexpr uint64_t kWriteFile = 1 << 1;
constexpr uint64_t kReadFile = 1 << 2;
constexpr uint64_t kReadFolder = 1 << 3;
constexpr uint64_t kRemoveFolder = 1 << 4;
constexpr uint64_t kRemoveFile = 1 << 5;
constexpr uint64_t kMakeFolder = 1 << 7;
constexpr uint64_t kMakeFile = 1 << 8;
constexpr uint64_t kMoveFile = 1 << 13;  // to another folder
constexpr uint64_t kTruncate = 1 << 14;
constexpr uint64_t kRightsOfFiles = kExecute | kWriteFile | kReadFile | kTruncate;

bool Allow(long ruleset, const std::string& path, uint64_t rights) {
  const int fd = open(path.c_str(), O_PATH | O_CLOEXEC);
  if (fd < 0) return true;
  struct stat info {};
  bool ok = fstat(fd, &info) == 0;
  const PathRule rule{S_ISDIR(info.st_mode) ? rights : rights & kRightsOfFiles, fd};
  ok = ok && syscall(SYS_landlock_add_rule, ruleset, kPathBeneath, &rule, 0) == 0;
  close(fd);
  return ok;
}

}  // namespace

bool DenyFilesAndNetwork() { return DenyNetworkAndFilesExcept({}, {}); }

bool DenyNetworkAndFilesExcept(std::span<const std::string> read_only,
                               std::span<const std::string> writable) {
  const long version = syscall(SYS_landlock_create_ruleset, nullptr, 0, kAskVersion);
  if (version < 1) {
    return false;
  }
  const Ruleset rights = AllOf(version);
  const long fd = syscall(SYS_landlock_create_ruleset, &rights, SizeFor(version), 0);
  if (fd < 0) {
    return false;
  }
  bool denied = true;
  for (const std::string& path : read_only) {
    denied = Allow(fd, path, kExecute | kReadFile | kReadFolder) && denied;
  }
  const uint64_t change = kWriteFile | kReadFile | kReadFolder | kRemoveFolder | kRemoveFile |
                          kMakeFolder | kMakeFile | kMoveFile | kTruncate;
  for (const std::string& path : writable) {
    denied = Allow(fd, path, change & rights.files) && denied;
  }
  denied = denied && syscall(SYS_landlock_restrict_self, fd, 0) == 0;
  close(static_cast<int>(fd));
  return denied;
}

}  // namespace kernelcast::worker::sandbox
