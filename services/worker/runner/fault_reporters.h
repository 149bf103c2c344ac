#ifndef KERNELCAST_SERVICES_WORKER_RUNNER_FAULT_REPORTERS_H_
#define KERNELCAST_SERVICES_WORKER_RUNNER_FAULT_REPORTERS_H_

#include "services/worker/runner/control.h"

namespace kernelcast::worker::runner {

// Installs handlers that write the cause of a fatal signal to the block and then let it be fatal.
// They run on their own stack, so that a stack overflow is reported too.
void InstallFaultReporters(ControlBlock* block);

}  // namespace kernelcast::worker::runner

#endif  // KERNELCAST_SERVICES_WORKER_RUNNER_FAULT_REPORTERS_H_
