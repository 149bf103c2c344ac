#ifndef KERNELCAST_SERVICES_WORKER_CUDA_RUNNER_SANDBOX_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_RUNNER_SANDBOX_H_

#include <cstdint>
#include <string>
#include <vector>

namespace kernelcast::worker::cuda_runner {

// Drops from all threads of this process what launching kernels does not need: starting processes
// and threads, files, sockets, signals to others, code generated at run time, and the user if it is
// root. Open descriptors and the driver stay usable. Call it when the driver has a context, and
// before any code of a candidate runs.
//
// `uid` 0 keeps the user. `max_memory_bytes` limits the private memory of the process beyond
// `used_bytes`; 0: no limit. Shared memory is not limited here: its parent watches it
// (judge/runner_client.h). `socket` is the one socket for messages. `own_namespaces`: whether
// sandbox::LeaveNamespaces succeeded at start. Returns the protections that this machine does not
// permit: "namespaces", "unprivileged_user", "resource_limits", "no_new_privileges", "landlock",
// "seccomp".
std::vector<std::string> EnterHostSandbox(uint32_t uid, int64_t used_bytes,
                                          int64_t max_memory_bytes, int socket,
                                          bool own_namespaces);

// Returns the private writable memory of this process, or 0 if the system does not report it.
// Address space reserved by the driver is not included.
int64_t PrivateMemoryBytes();

}  // namespace kernelcast::worker::cuda_runner

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_RUNNER_SANDBOX_H_
