#include "services/worker/cuda/judge/expected_output.h"

#include <cmath>

namespace kernelcast::worker {

CudaVerdict JudgeComparison(const CudaExpected& expected, const TensorComparison& comparison,
                            bool poisoned) {
  CudaVerdict verdict;
  if (IsFloat(expected.dtype)) {
    const double error = std::sqrt(comparison.error_squares);
    verdict.normwise_error = expected.norm > 0 ? error / expected.norm : error;
  }
  if (comparison.mismatches == 0) {
    verdict.cause = WrongResult::Cause::kNormwise;
    verdict.ok = !(IsFloat(expected.dtype) && expected.tolerance.normwise > 0 &&
                   expected.rms > expected.tolerance.atol &&
                   verdict.normwise_error > expected.tolerance.normwise);
    return verdict;
  }
  verdict.ok = false;
  if (poisoned && comparison.unwritten == comparison.mismatches) {
    verdict.cause = WrongResult::Cause::kNotWritten;
  } else if (comparison.non_finite == comparison.mismatches) {
    verdict.cause = WrongResult::Cause::kNonFinite;
  }
  return verdict;
}

}  // namespace kernelcast::worker
