#ifndef KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_EXPECTED_OUTPUT_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_EXPECTED_OUTPUT_H_

#include <cstdint>
#include <optional>

#include "common/domain/measurement.h"
#include "common/domain/problem.h"
#include "services/worker/core/verification.h"
#include "services/worker/cuda/judge/device.h"
#include "services/worker/cuda/judge/judge_kernels.h"

namespace kernelcast::worker {

// Expected value of an output, in device memory that no runner can access.
struct CudaExpected {
  DataType dtype = DataType::kFloat32;
  DataType kept = DataType::kFloat64;  // of `values`; see KeptType
  Tolerance tolerance;
  std::optional<double> noise;  // see Unexplained
  int64_t count = 0;
  CUdeviceptr values = 0;
  double rms = 0;
  double norm = 0;
  double absolute = 0;  // atol, scaled

  ComparisonRule Rule() const;
  // By Tolerance::own_error, which must be known.
  ComparisonRule OwnErrorRule() const;
};

// The type in which expected values of an output are kept. Floating point: an oracle in CUDA
// computes in float64; a Python task's oracle yields values of `dtype`, which float32 holds unless
// `dtype` is float64.
DataType KeptType(DataType dtype, bool python_task);

// Verdict on a candidate's output, without the values of the first mismatch; see CompareTensor.
TensorVerdict JudgeComparison(const CudaExpected& expected, const TensorComparison& comparison,
                              bool poisoned);
// Whether the output agrees by Tolerance::own_error. `comparison`: by OwnErrorRule.
bool WithinOwnError(const CudaExpected& expected, const TensorComparison& comparison);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_EXPECTED_OUTPUT_H_
