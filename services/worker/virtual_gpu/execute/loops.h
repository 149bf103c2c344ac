#ifndef KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_EXECUTE_LOOPS_H_
#define KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_EXECUTE_LOOPS_H_

#include <cstdint>

#include "services/worker/virtual_gpu/execute/warp.h"
#include "services/worker/virtual_gpu/program.h"

namespace kernelcast::worker::virtual_gpu {

// Call it at the end of an iteration of a loop that is not the last one; `mask` has the lanes that
// continue. Once an iteration changes integers as the ones before, this skips most of the others:
// it extrapolates registers, counts and times. Returns kEndless if the loop has run for long
// without anything that could end it. Nothing is skipped while a checker is present.
Outcome EndIteration(Warp& w, const Instruction& i, uint32_t mask);

}  // namespace kernelcast::worker::virtual_gpu

#endif  // KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_EXECUTE_LOOPS_H_
