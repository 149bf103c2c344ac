#ifndef KERNELCAST_SERVICES_WORKER_CUDA_RUNNER_SANDBOX_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_RUNNER_SANDBOX_H_

#include <cstdint>
#include <string>
#include <vector>

namespace kernelcast::worker::cuda_runner {

// Takes from this process, all threads of it, what launching kernels does not need: starting
// processes and threads, files, sockets, signals to others, code made at run time, its user where
// that is root. It keeps the descriptors that are open, and the driver. Call it once the driver has
// a context, and before any code of a candidate runs.
//
// `uid` 0 leaves the user. `max_memory_bytes` bounds what the process may take beyond what it has;
// 0: no bound. `socket` is the one that messages may be exchanged on. Returns the protections that
// this machine does not grant: "namespaces", "unprivileged_user", "resource_limits",
// "no_new_privileges", "landlock", "seccomp". `own_namespaces`: sandbox::LeaveNamespaces was called
// at start, and did.
std::vector<std::string> EnterHostSandbox(uint32_t uid, int64_t max_memory_bytes, int socket,
                                          bool own_namespaces);

}  // namespace kernelcast::worker::cuda_runner

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_RUNNER_SANDBOX_H_
