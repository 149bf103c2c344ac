#include "services/worker/cuda/judge/expected_output.h"

#include <algorithm>
#include <cmath>

namespace kernelcast::worker {

ComparisonRule CudaExpected::Rule() const {
  return {.absolute = absolute,
          .rtol = tolerance.rtol,
          .max_error = tolerance.max_error,
          .larger_of_both = tolerance.larger_of_both ? 1 : 0,
          .infinities = static_cast<int32_t>(tolerance.infinities),
          .nan_agrees = tolerance.nan_agrees ? 1 : 0};
}

ComparisonRule CudaExpected::OwnErrorRule() const {
  return {.absolute = (1 + kOwnErrors) * tolerance.own_error->largest * rms,
          .infinities = static_cast<int32_t>(tolerance.infinities),
          .nan_agrees = tolerance.nan_agrees ? 1 : 0};
}

bool WithinOwnError(const CudaExpected& expected, const TensorComparison& comparison) {
  return comparison.mismatches == 0 &&
         std::sqrt(comparison.error_squares) <=
             (1 + kOwnErrors) * expected.tolerance.own_error->normwise * expected.norm;
}

DataType KeptType(DataType dtype, bool python_task) {
  if (!IsFloat(dtype)) return dtype;
  return python_task && dtype != DataType::kFloat64 ? DataType::kFloat32 : DataType::kFloat64;
}

TensorVerdict JudgeComparison(const CudaExpected& expected, const TensorComparison& comparison,
                              bool poisoned) {
  TensorVerdict verdict;
  verdict.mismatches = comparison.mismatches;
  verdict.index = comparison.mismatches > 0 ? comparison.first : 0;
  verdict.variation = comparison.variation;
  if (IsFloat(expected.dtype)) {
    const double error = std::sqrt(comparison.error_squares);
    verdict.normwise_error = expected.norm > 0 ? error / expected.norm : error;
  }
  const Tolerance& tolerance = expected.tolerance;
  const bool zeros = tolerance.not_all_zero && expected.norm > 0 && comparison.nonzero == 0;
  if (comparison.mismatches == 0 && !zeros) {
    verdict.cause = WrongResult::Cause::kNormwise;
    const double limit = NormwiseLimit(tolerance, expected.dtype, expected.count);
    verdict.ok = !(IsFloat(expected.dtype) && limit > 0 && expected.rms > tolerance.atol &&
                   verdict.normwise_error > limit);
    return verdict;
  }
  const bool unwritten =
      poisoned && comparison.unwritten > 0 && comparison.unwritten == comparison.mismatches;
  const double matched = 1 - static_cast<double>(comparison.mismatches) /
                                 static_cast<double>(std::max<int64_t>(1, expected.count));
  const bool enough = tolerance.matched_ratio < 1 && matched >= tolerance.matched_ratio;
  verdict.ok = enough && comparison.intolerable == 0 && !zeros && !unwritten;
  // Poison of NaN stays intolerable where a share of the elements may be wrong.
  if (unwritten || (enough && poisoned && comparison.unwritten > 0 &&
                    comparison.unwritten == comparison.intolerable)) {
    verdict.cause = WrongResult::Cause::kNotWritten;
  } else if (comparison.mismatches > 0 && comparison.non_finite == comparison.mismatches) {
    verdict.cause = WrongResult::Cause::kNonFinite;
  }
  return verdict;
}

}  // namespace kernelcast::worker
