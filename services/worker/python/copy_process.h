#ifndef KERNELCAST_SERVICES_WORKER_PYTHON_COPY_PROCESS_H_
#define KERNELCAST_SERVICES_WORKER_PYTHON_COPY_PROCESS_H_

#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace kernelcast::worker {

// Makes a copy of this process, which must have one thread. The copy is a child of the worker, not
// of this process. Returns its id, 0 in the copy, or -1.
inline int64_t CopyProcess() {
  return syscall(SYS_clone, CLONE_PARENT | SIGCHLD, nullptr, nullptr, nullptr, 0);
}

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_PYTHON_COPY_PROCESS_H_
