#ifndef KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_EXPECTED_OUTPUT_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_EXPECTED_OUTPUT_H_

#include <cstdint>

#include "common/domain/measurement.h"
#include "common/domain/problem.h"
#include "services/worker/cuda/judge/device.h"
#include "services/worker/cuda/judge/judge_kernels.h"

namespace kernelcast::worker {

// Expected value of an output, in device memory that no runner can access.
struct CudaExpected {
  DataType dtype = DataType::kFloat32;
  Tolerance tolerance;
  int64_t count = 0;
  CUdeviceptr values = 0;  // doubles, or elements of the integer type
  double rms = 0;
  double norm = 0;
  double absolute = 0;  // atol, scaled

  ComparisonRule Rule() const;
};

// Verdict on a candidate's output; see CompareTensor.
struct CudaVerdict {
  bool ok = true;
  WrongResult::Cause cause = WrongResult::Cause::kValue;
  double normwise_error = 0;
};
CudaVerdict JudgeComparison(const CudaExpected& expected, const TensorComparison& comparison,
                            bool poisoned);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_EXPECTED_OUTPUT_H_
