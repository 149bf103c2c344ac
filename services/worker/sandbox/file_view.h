#ifndef KERNELCAST_SERVICES_WORKER_SANDBOX_FILE_VIEW_H_
#define KERNELCAST_SERVICES_WORKER_SANDBOX_FILE_VIEW_H_

#include <cstdint>
#include <span>
#include <string>

namespace kernelcast::worker::sandbox {

enum class FileView {
  kUnchanged,   // not permitted on this machine; files are as before
  kRestricted,  // only the named paths are visible
  kBroken,      // in between; the process should end
};

// Moves this single-threaded process into a mount namespace, and into a user namespace too unless
// it is root. There "/" holds `read_only` and `writable` (absolute paths of files and folders) and
// the symbolic links that lead to them; nothing else exists, not even /proc. Paths that do not
// exist are left out. The working directory becomes "/".
FileView ShowOnly(std::span<const std::string> read_only, std::span<const std::string> writable);

// The same in two steps, for processes whose libraries start threads while they still need other
// files. The first step needs a process with one thread; false: not permitted, nothing has changed.
// The second applies to all threads. It adds an empty writable folder in memory, from which code
// can be loaded; 0 bytes: none.
bool LeaveFiles();
struct MemoryFolder {
  std::string path;
  int64_t bytes = 0;
};
FileView ShowOnlyHere(std::span<const std::string> read_only, std::span<const std::string> writable,
                      const MemoryFolder& folder);

}  // namespace kernelcast::worker::sandbox

#endif  // KERNELCAST_SERVICES_WORKER_SANDBOX_FILE_VIEW_H_
