#ifndef KERNELCAST_SERVICES_WORKER_COMPILER_SANDBOX_FILTER_H_
#define KERNELCAST_SERVICES_WORKER_COMPILER_SANDBOX_FILTER_H_

namespace kernelcast::worker {

// Restricts this process and its children to the system calls that compilers, assemblers and
// linkers need: files, memory, processes and threads of its own group. No sockets, signals to
// others, namespaces, mounts or tracing. Denied calls fail with EPERM. Requires no_new_privs.
// Returns false if the kernel rejects the filter.
bool LoadCompilerFilter();

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_COMPILER_SANDBOX_FILTER_H_
