#include "services/worker/sandbox/landlock.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace kernelcast::worker::sandbox {
namespace {

// The headers of older systems lack what newer kernels know, so all is said here.
constexpr uint32_t kAskVersion = 1;

struct Ruleset {
  uint64_t files = 0;
  uint64_t network = 0;  // from version 4
  uint64_t scopes = 0;   // from version 6
};

// All rights that a version knows; no rule gives any of them back.
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

}  // namespace

bool DenyFilesAndNetwork() {
  const long version = syscall(SYS_landlock_create_ruleset, nullptr, 0, kAskVersion);
  if (version < 1) {
    return false;
  }
  const Ruleset rights = AllOf(version);
  const long fd = syscall(SYS_landlock_create_ruleset, &rights, SizeFor(version), 0);
  if (fd < 0) {
    return false;
  }
  const bool denied = syscall(SYS_landlock_restrict_self, fd, 0) == 0;
  close(static_cast<int>(fd));
  return denied;
}

}  // namespace kernelcast::worker::sandbox
