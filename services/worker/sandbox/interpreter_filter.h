#ifndef KERNELCAST_SERVICES_WORKER_SANDBOX_INTERPRETER_FILTER_H_
#define KERNELCAST_SERVICES_WORKER_SANDBOX_INTERPRETER_FILTER_H_

#include "services/worker/sandbox/system_call_filter.h"

namespace kernelcast::worker::sandbox {

// Allows what Python and large libraries need to compute: memory, clocks, reading the visible
// files, and writing to standard output and error. No files are created or changed, and no
// processes, threads or sockets.
void AllowInterpreter(SystemCallFilter& filter);

}  // namespace kernelcast::worker::sandbox

#endif  // KERNELCAST_SERVICES_WORKER_SANDBOX_INTERPRETER_FILTER_H_
