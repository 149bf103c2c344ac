#ifndef KERNELCAST_SERVICES_WORKER_SANDBOX_LANDLOCK_H_
#define KERNELCAST_SERVICES_WORKER_SANDBOX_LANDLOCK_H_

namespace kernelcast::worker::sandbox {

// By Landlock: from now on this thread, and what it starts, opens, makes and runs no file, and, as
// far as the kernel has it, neither binds nor connects TCP sockets nor reaches abstract sockets and
// processes outside. Descriptors that are open stay. Needs no_new_privs, and a free descriptor for
// a moment. False where the kernel does not have it.
bool DenyFilesAndNetwork();

}  // namespace kernelcast::worker::sandbox

#endif  // KERNELCAST_SERVICES_WORKER_SANDBOX_LANDLOCK_H_
