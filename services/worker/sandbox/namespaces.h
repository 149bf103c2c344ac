#ifndef KERNELCAST_SERVICES_WORKER_SANDBOX_NAMESPACES_H_
#define KERNELCAST_SERVICES_WORKER_SANDBOX_NAMESPACES_H_

namespace kernelcast::worker::sandbox {

// Moves this process into new Linux namespaces: a network without interfaces, and its own mounts,
// System V IPC and host name. Unless it is root it also gets a user namespace, in which it has all
// capabilities until it drops them (privileges.h). There is no PID namespace: its first process
// would survive its own fatal signals, and landlock.h already keeps other processes out of reach.
//
// Call it only while the process has one thread. Files are as before. Returns false if the machine
// does not permit all of it; then nothing has changed.
bool LeaveNamespaces();

// Call it after LeaveNamespaces. For all threads, "/" becomes an empty read-only directory. What is
// open or mapped stays. Returns false, with files as before, if this is not possible.
bool EmptyRoot();

}  // namespace kernelcast::worker::sandbox

#endif  // KERNELCAST_SERVICES_WORKER_SANDBOX_NAMESPACES_H_
