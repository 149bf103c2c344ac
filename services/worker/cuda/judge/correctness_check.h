#ifndef KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_CORRECTNESS_CHECK_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_CORRECTNESS_CHECK_H_

#include <cstdint>
#include <optional>
#include <span>

#include "common/domain/measurement.h"
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
  // Calls the candidate once more on the largest case, and verifies it, to compare its outputs with
  // those of its other processes. Sets their fingerprint.
  bool RunLargest(uint64_t& outputs);

  // Number of calls whose outputs were verified.
  uint32_t verified() const { return verified_; }

 private:
  using Checks = std::span<const CudaPreparedProblem::CheckCase>;

  // Calls the cases twice, as the class does.
  bool CallTwice(Checks checks);
  // Puts the values of a case without a place of its own into the inputs, and the others back.
  bool PutValues(const CudaPreparedProblem::CheckCase& check);
  bool PutBackValues(const CudaPreparedProblem::CheckCase& check);
  // Calls each case once on outputs that hold the pattern, and verifies outputs and inputs.
  bool CallAndVerify(Checks checks, uint32_t pattern, bool finite_first);
  // Calls each case once on hostile memory, alternating between NaN and finite values.
  bool CallCases(Checks checks, bool finite_first, int64_t limit_ns);
  bool CheckGuards();
  // Values that could be results of the cases.
  uint32_t PlausibleFor(Checks checks);

  Judgement& judgement_;
  OutputVerifier& verifier_;
  DeviceBuffer guard_counts_;
  uint32_t verified_ = 0;
  std::optional<uint32_t> first_pattern_;  // of RunLargest
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_CORRECTNESS_CHECK_H_
