#include "services/worker/sandbox/file_view.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdint.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <vector>

namespace kernelcast::worker::sandbox {
namespace {

constexpr const char* kPlace = "/tmp";  // where the new root is made; exists on every system
constexpr const char* kOldRoot = "/old";
constexpr int kMaxLinks = 40;

// As in mount_setattr(2), which older system headers lack.
struct MountAttributes {
  uint64_t set = 0;
  uint64_t clear = 0;
  uint64_t propagation = 0;
  uint64_t user_namespace = 0;
};
constexpr long kMountSetattr = 442;
constexpr uint64_t kReadOnly = 1;
constexpr uint64_t kNoSetuid = 2;
constexpr uint64_t kNoDevices = 4;
constexpr uint64_t kNoPrograms = 8;

bool WriteTo(const char* path, const std::string& text) {
  const int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool written = write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  close(fd);
  return written;
}

bool LeaveMounts() {
  if (geteuid() == 0) return unshare(CLONE_NEWNS) == 0;
  const std::string user = std::to_string(geteuid());
  const std::string group = std::to_string(getegid());
  // Without mapping its own user the process could not create anything in the new root.
  return unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 && WriteTo("/proc/self/setgroups", "deny") &&
         WriteTo("/proc/self/uid_map", user + " " + user + " 1") &&
         WriteTo("/proc/self/gid_map", group + " " + group + " 1");
}

// Older kernels and some outer sandboxes lack mount_setattr. Test for it before changing anything:
// kernels that have it reject an argument of size zero.
bool CanSetAttributes() {
  return syscall(kMountSetattr, -1, "", 0, nullptr, 0) != 0 && errno == EINVAL;
}

std::deque<std::string> Components(const std::string& path) {
  std::deque<std::string> parts;
  size_t start = 0;
  while (start < path.size()) {
    const size_t end = std::min(path.find('/', start), path.size());
    if (end > start) parts.push_back(path.substr(start, end - start));
    start = end + 1;
  }
  return parts;
}

class NewRoot {
 public:
  // Returns false if nothing but the namespace has changed.
  bool Enter() const {
    // Keep the following mounts from propagating to other namespaces.
    if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("none", kPlace, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "size=1m,mode=755") != 0) {
      return false;
    }
    if (chdir(kPlace) == 0 && mkdir(kOldRoot + 1, 0700) == 0 &&
        syscall(SYS_pivot_root, ".", kOldRoot + 1) == 0) {
      return chdir("/") == 0;
    }
    umount2(kPlace, MNT_DETACH);
    return false;
  }

  // Makes `path` visible. Returns false if it exists and cannot be shown.
  bool Show(const std::string& path, bool writable) {
    std::deque<std::string> parts = Components(path);
    std::string at;
    mode_t mode = S_IFDIR;
    int links = 0;
    while (!parts.empty()) {
      const std::string part = parts.front();
      parts.pop_front();
      if (part == ".") continue;
      if (part == "..") {
        at.resize(std::min(at.rfind('/'), at.size()));
        continue;
      }
      const std::string next = at + "/" + part;
      struct stat info {};
      if (lstat((kOldRoot + next).c_str(), &info) != 0) return true;
      mode = info.st_mode & S_IFMT;
      if (mode == S_IFLNK) {
        char target[PATH_MAX];
        const ssize_t size = readlink((kOldRoot + next).c_str(), target, sizeof target - 1);
        if (size <= 0 || ++links > kMaxLinks) return true;
        target[size] = '\0';
        if (!Shown(next) && symlink(target, next.c_str()) != 0 && errno != EEXIST) return false;
        if (target[0] == '/') at.clear();
        const std::deque<std::string> more = Components(target);
        parts.insert(parts.begin(), more.begin(), more.end());
        mode = S_IFDIR;
        continue;
      }
      if (!Shown(next) && !MakePlace(next, mode)) return false;
      at = next;
    }
    return at.empty() || Shown(at) || Bind(at, mode, writable);
  }

  static bool Add(const MemoryFolder& folder) {
    const std::string options = "size=" + std::to_string(folder.bytes) + ",mode=1777";
    return mkdir(folder.path.c_str(), 0755) == 0 &&
           mount("none", folder.path.c_str(), "tmpfs", MS_NOSUID | MS_NODEV, options.c_str()) == 0;
  }

  bool Close() const {
    return umount2(kOldRoot, MNT_DETACH) == 0 && rmdir(kOldRoot) == 0 &&
           mount(nullptr, "/", nullptr,
                 MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) == 0;
  }

 private:
  bool Shown(const std::string& path) const {
    return std::any_of(shown_.begin(), shown_.end(), [&](const std::string& shown) {
      return path.compare(0, shown.size(), shown) == 0 &&
             (path.size() == shown.size() || path[shown.size()] == '/');
    });
  }

  static bool MakePlace(const std::string& path, mode_t mode) {
    if (mode == S_IFDIR) return mkdir(path.c_str(), 0755) == 0 || errno == EEXIST;
    const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    return fd >= 0 && close(fd) == 0;
  }

  bool Bind(const std::string& path, mode_t mode, bool writable) {
    MountAttributes attributes;
    attributes.set = kNoSetuid | (writable ? kNoPrograms : kReadOnly);
    if (mode != S_IFCHR) attributes.set |= kNoDevices;
    if (mount((kOldRoot + path).c_str(), path.c_str(), nullptr, MS_BIND | MS_REC, nullptr) != 0 ||
        syscall(kMountSetattr, AT_FDCWD, path.c_str(), AT_RECURSIVE, &attributes,
                sizeof attributes) != 0) {
      return false;
    }
    shown_.push_back(path);
    return true;
  }

  std::vector<std::string> shown_;
};

}  // namespace

FileView ShowOnly(std::span<const std::string> read_only, std::span<const std::string> writable) {
  return LeaveFiles() ? ShowOnlyHere(read_only, writable, {}) : FileView::kUnchanged;
}

bool LeaveFiles() { return CanSetAttributes() && LeaveMounts(); }

FileView ShowOnlyHere(std::span<const std::string> read_only, std::span<const std::string> writable,
                      const MemoryFolder& folder) {
  // Another user reads the folders that are made here, whatever mask the worker was started with.
  umask(022);
  NewRoot root;
  if (!root.Enter()) return FileView::kUnchanged;
  for (const std::string& path : writable) {
    if (!root.Show(path, true)) return FileView::kBroken;
  }
  for (const std::string& path : read_only) {
    if (!root.Show(path, false)) return FileView::kBroken;
  }
  if (folder.bytes > 0 && !NewRoot::Add(folder)) return FileView::kBroken;
  return root.Close() ? FileView::kRestricted : FileView::kBroken;
}

}  // namespace kernelcast::worker::sandbox
