#ifndef KERNELCAST_SERVICES_WORKER_CUDA_COMPILER_SANDBOX_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_COMPILER_SANDBOX_H_

#include <cstdint>
#include <string>
#include <vector>

namespace kernelcast::worker {

// Drops what compiling does not need: files, processes, threads, sockets, and the user if it is
// root. Open descriptors stay. `uid` 0 keeps the user. `own_namespaces`: whether
// sandbox::LeaveNamespaces succeeded at start. Returns the protections that this machine does not
// permit, by the names that runners use.
std::vector<std::string> EnterCompilerSandbox(uint32_t uid, int64_t max_memory_bytes,
                                              bool own_namespaces);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_COMPILER_SANDBOX_H_
