#ifndef KERNELCAST_SERVICES_WORKER_RUNNER_SANDBOX_H_
#define KERNELCAST_SERVICES_WORKER_RUNNER_SANDBOX_H_

#include <cstdint>

#include "services/worker/runner/control.h"

namespace kernelcast::worker::runner {

// Drops what a kernel does not need: other users' identity, privileges, files, processes, memory
// beyond the limit, and almost all system calls. Irreversible. Returns the Protection bits in
// effect.
uint32_t EnterSandbox(const ControlBlock& block);

}  // namespace kernelcast::worker::runner

#endif  // KERNELCAST_SERVICES_WORKER_RUNNER_SANDBOX_H_
