#ifndef KERNELCAST_SERVICES_WORKER_CUDA_COMPILER_SANDBOX_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_COMPILER_SANDBOX_H_

#include <cstdint>
#include <string>
#include <vector>

namespace kernelcast::worker {

// Takes from this process what compiling does not need: files, processes, threads, sockets, its
// user where that is root. It keeps the descriptors that are open. `uid` 0 leaves the user. Returns
// the protections that this machine does not grant, by the names that runners use for them.
// `own_namespaces`: sandbox::LeaveNamespaces was called at start, and did.
std::vector<std::string> EnterCompilerSandbox(uint32_t uid, int64_t max_memory_bytes,
                                              bool own_namespaces);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_COMPILER_SANDBOX_H_
