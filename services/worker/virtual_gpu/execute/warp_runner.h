#ifndef KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_EXECUTE_WARP_RUNNER_H_
#define KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_EXECUTE_WARP_RUNNER_H_

#include <cstdint>

#include "services/worker/virtual_gpu/execute/warp.h"
#include "services/worker/virtual_gpu/program.h"

namespace kernelcast::worker::virtual_gpu {

// Executes the instructions of one warp, with its divergence and its timing.
class WarpRunner {
 public:
  // Both arguments must outlive the runner. Each executed instruction takes one of `steps_left`.
  WarpRunner(Warp& warp, int64_t& steps_left) : w_(warp), steps_left_(steps_left) {}

  // Runs until the warp ends, waits at a barrier, or has used its turn.
  Outcome Run();

 private:
  void CountFlops(const Instruction& i, uint32_t mask);
  // Adds to the result of a barrier, for all warps that this one represents.
  void Contribute(const Instruction& i, uint32_t mask);
  void End(uint32_t mask);
  Outcome Branch(const Instruction& i, StackEntry& top, uint32_t taken);

  Warp& w_;
  int64_t& steps_left_;
};

}  // namespace kernelcast::worker::virtual_gpu

#endif  // KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_EXECUTE_WARP_RUNNER_H_
