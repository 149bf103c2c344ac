#ifndef KERNELCAST_SERVICES_WORKER_SANDBOX_NAMESPACES_H_
#define KERNELCAST_SERVICES_WORKER_SANDBOX_NAMESPACES_H_

namespace kernelcast::worker::sandbox {

// What Linux calls namespaces: this process gets a network without interfaces and mounts, System V
// IPC and a host name of its own; as a user other than root a user namespace besides, in which it
// has all capabilities until it drops them (privileges.h). No PID namespace: its first process
// could not be ended by its own faults, and landlock.h keeps others from being reached.
//
// Only while the process has one thread. Files are as before. False where the machine does not
// permit all of it, and then nothing has changed.
bool LeaveNamespaces();

// After LeaveNamespaces, for all threads: "/" becomes an empty directory that cannot be written.
// What is open or mapped stays. False, and files are as before, where that cannot be had.
bool EmptyRoot();

}  // namespace kernelcast::worker::sandbox

#endif  // KERNELCAST_SERVICES_WORKER_SANDBOX_NAMESPACES_H_
