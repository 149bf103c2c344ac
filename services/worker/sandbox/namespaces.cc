#include "services/worker/sandbox/namespaces.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace kernelcast::worker::sandbox {
namespace {

// Where the empty root is made; exists on every system.
constexpr const char* kRootPlace = "/tmp";

}  // namespace

bool LeaveNamespaces() {
  int namespaces = CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS;
  if (geteuid() != 0) namespaces |= CLONE_NEWUSER;
  return unshare(namespaces) == 0;
}

bool EmptyRoot() {
  // Keep the following mounts from propagating to other namespaces.
  if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      mount("none", kRootPlace, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "size=4k,mode=555") !=
          0) {
    return false;
  }
  if (mount(nullptr, kRootPlace, nullptr,
            MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) != 0 ||
      chdir(kRootPlace) != 0 || syscall(SYS_pivot_root, ".", ".") != 0) {
    umount2(kRootPlace, MNT_DETACH);
    return false;
  }
  // The old root is mounted over the new one.
  return umount2(".", MNT_DETACH) == 0 && chdir("/") == 0;
}

}  // namespace kernelcast::worker::sandbox
