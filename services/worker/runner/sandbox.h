#ifndef KERNELCAST_SERVICES_WORKER_RUNNER_SANDBOX_H_
#define KERNELCAST_SERVICES_WORKER_RUNNER_SANDBOX_H_

#include <cstdint>

#include "services/worker/runner/control.h"

namespace kernelcast::worker::runner {

// Handlers that write to the block what a fatal signal was about, and then let it be fatal. They
// run on a stack of their own, so that an overflown stack is reported too.
void InstallFaultReporters(ControlBlock* block);

// Gives up what a kernel does not need: other users' identity, privileges, files, processes, memory
// beyond the limit, and every system call but a few. Nothing of it can be undone. Returns the bits
// of Protection that were had.
uint32_t EnterSandbox(const ControlBlock& block);

}  // namespace kernelcast::worker::runner

#endif  // KERNELCAST_SERVICES_WORKER_RUNNER_SANDBOX_H_
