#ifndef KERNELCAST_SERVICES_WORKER_SANDBOX_COMPILER_FILTER_H_
#define KERNELCAST_SERVICES_WORKER_SANDBOX_COMPILER_FILTER_H_

#include "services/worker/sandbox/system_call_filter.h"

namespace kernelcast::worker::sandbox {

// Allows what compilers and linkers need: files, pipes, and programs that they start and wait for.
// Reading clocks and starting threads are left to the caller.
void AllowCompiler(SystemCallFilter& filter);

}  // namespace kernelcast::worker::sandbox

#endif  // KERNELCAST_SERVICES_WORKER_SANDBOX_COMPILER_FILTER_H_
