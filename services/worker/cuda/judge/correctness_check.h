#ifndef KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_CORRECTNESS_CHECK_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_CORRECTNESS_CHECK_H_

#include <cstdint>

#include "services/worker/cuda/judge/judgement.h"
#include "services/worker/cuda/judge/output_verifier.h"

namespace kernelcast::worker {

// Calls the candidate on all correctness cases twice, on outputs filled first with NaN and then
// with plausible values, and verifies its outputs, its inputs and the guards around outputs. Not
// thread-safe.
class CorrectnessCheck {
 public:
  // Both must outlive the check.
  CorrectnessCheck(Judgement& judgement, OutputVerifier& verifier)
      : judgement_(judgement), verifier_(verifier) {}

  // Allocates what the check needs: a candidate may leave no memory on the device.
  bool Reserve();

  bool Run();

  // Number of calls whose outputs were verified.
  uint32_t verified() const { return verified_; }

 private:
  // Calls each check case once on hostile memory, alternating between NaN and finite values.
  bool CallCases(bool finite_first, int64_t limit_ns);
  bool CheckGuards();

  Judgement& judgement_;
  OutputVerifier& verifier_;
  DeviceBuffer guard_counts_;
  uint32_t verified_ = 0;
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_CORRECTNESS_CHECK_H_
