#ifndef KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_JUDGE_KERNELS_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_JUDGE_KERNELS_H_

#include <cuda.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/domain/problem.h"
#include "services/worker/cuda/judge/device.h"

namespace kernelcast::worker {

// What the judge runs on the device itself, as CUDA source, and the names of its kernels.
std::string_view JudgeKernelsSource();
std::vector<std::string> JudgeKernelNames();

// Of a tensor of right values.
struct ExpectedStatistics {
  double squares = 0;  // of the finite values
  uint64_t finite = 0;
  uint64_t nan = 0;
};

// What comparing a whole tensor found. Exactly what the caller reads from the device.
struct TensorComparison {
  uint64_t mismatches = 0;
  uint64_t first = ~uint64_t{0};  // index of the first mismatch
  uint64_t unwritten = 0;         // mismatches that hold the poison
  uint64_t non_finite = 0;        // mismatches that are infinite or NaN
  double error_squares = 0;       // over elements that are finite on both sides
};

// Puts kernels into the device's stream. The functions return at once; the results are there after
// CudaDevice::Synchronize.
class JudgeKernels {
 public:
  // INVALID_ARGUMENT: the cubin is not for this device.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<JudgeKernels>> Load(CudaDevice& device,
                                                                          const std::string& cubin);
  ~JudgeKernels();
  JudgeKernels(const JudgeKernels&) = delete;
  JudgeKernels& operator=(const JudgeKernels&) = delete;

  // `values` are `count` doubles. Those beyond what `dtype` can hold become infinite, as a right
  // candidate's do; the rest is counted into `statistics` on the device, which is zeroed before.
  [[nodiscard]] absl::Status Describe(DataType dtype, CUdeviceptr values, int64_t count,
                                      CUdeviceptr statistics);

  // Compares `count` elements of `dtype` with doubles (floating-point types) or elements of the
  // same type (integers) by |got - expected| <= absolute + rtol * |expected|; NaN agrees with
  // nothing, an infinity with the same. `poison` is the word that the output was filled with.
  // `comparison` on the device holds a TensorComparison, which is made new before.
  struct Comparison {
    DataType dtype = DataType::kFloat32;
    CUdeviceptr got = 0;
    CUdeviceptr expected = 0;
    int64_t count = 0;
    double absolute = 0;
    double rtol = 0;
    uint32_t poison = 0;
    CUdeviceptr result = 0;
  };
  [[nodiscard]] absl::Status Compare(const Comparison& comparison);

  // Counts words that differ from `pattern` into the 8 bytes at `count`, which are not zeroed.
  [[nodiscard]] absl::Status CountChanged(CUdeviceptr words, int64_t word_count, uint32_t pattern,
                                          CUdeviceptr count);

  // Adds a hash of `word_count` words of 8 bytes, keyed by `seed`, to the 8 bytes at `sum`. Changes
  // that leave it as it was are not found without knowing the key. (The finalizer is that of
  // SplitMix64, Steele et al. 2014.)
  [[nodiscard]] absl::Status Fingerprint(CUdeviceptr words, int64_t word_count, uint64_t seed,
                                         CUdeviceptr sum);

 private:
  explicit JudgeKernels(CudaDevice& device) : device_(device) {}
  absl::Status Launch(CUfunction function, int64_t elements, void** parameters);
  absl::Status Fill(CUdeviceptr at, const void* content, size_t bytes);

  CudaDevice& device_;
  CUmodule module_ = nullptr;
  std::vector<CUfunction> functions_;  // in the order of JudgeKernelNames
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_JUDGE_KERNELS_H_
