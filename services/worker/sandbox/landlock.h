#ifndef KERNELCAST_SERVICES_WORKER_SANDBOX_LANDLOCK_H_
#define KERNELCAST_SERVICES_WORKER_SANDBOX_LANDLOCK_H_

#include <span>
#include <string>

namespace kernelcast::worker::sandbox {

// Uses Landlock: from now on this thread and its children cannot open, create or run files. As far
// as the kernel supports it, they also cannot bind or connect TCP sockets, or reach abstract
// sockets and processes outside. Open descriptors stay usable. Requires no_new_privs and one free
// descriptor during the call. Returns false if the kernel does not support it.
bool DenyFilesAndNetwork();

// Like DenyFilesAndNetwork, but files beneath `read_only` can be read and run, and files beneath
// `writable` can be read and changed (regular files and folders only, and they cannot be run).
// Skips paths that cannot be opened.
bool DenyNetworkAndFilesExcept(std::span<const std::string> read_only,
                               std::span<const std::string> writable);

}  // namespace kernelcast::worker::sandbox

#endif  // KERNELCAST_SERVICES_WORKER_SANDBOX_LANDLOCK_H_
