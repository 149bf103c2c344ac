#ifndef KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_JUDGE_KERNELS_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_JUDGE_KERNELS_H_

#include <cuda.h>

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/domain/problem.h"
#include "services/worker/core/draw_plan.h"
#include "services/worker/core/variation.h"
#include "services/worker/cuda/judge/device.h"
#include "services/worker/cuda/judge/hostile_memory.h"

namespace kernelcast::worker {

// The judge's own device kernels. Several modules, which compile in parallel: one compile of
// everything takes three times as long.
struct JudgeModule {
  std::string source;  // CUDA
  std::vector<std::string> kernels;
};
// The last module is that of HostileMemory.
std::vector<JudgeModule> JudgeModules();
// Source of the kernels that draw inputs, without the includes.
std::string DrawKernelsSource();
// Returns the data type with this number. Kernels that handle several types take the number as an
// argument.
DataType NumberedType(int32_t type);

// Statistics of an expected tensor.
struct ExpectedStatistics {
  double squares = 0;  // of the finite values
  uint64_t finite = 0;
  uint64_t nan = 0;
};

// Result of comparing a whole tensor, with the layout that the kernels write.
struct TensorComparison {
  uint64_t mismatches = 0;
  uint64_t first = ~uint64_t{0};  // index of the first mismatch
  uint64_t unwritten = 0;         // mismatches that hold the poison
  uint64_t non_finite = 0;        // mismatches that are infinite or NaN
  double error_squares = 0;       // over elements that are finite on both sides
  // Mismatches that no share of wrong elements allows: infinite, NaN, or beyond the largest error.
  uint64_t intolerable = 0;
  uint64_t nonzero = 0;  // floating point: more than 0 if any element is not zero
  VariationSums variation;
};

// When elements agree, with the layout that the kernels read: see Tolerance.
struct ComparisonRule {
  double absolute = 0;
  double rtol = 0;
  double max_error = 0;  // 0: unlimited
  int32_t larger_of_both = 0;
  int32_t infinities = 0;  // Tolerance::Infinities
  int32_t nan_agrees = 0;
};

// Launches kernels on the device's stream. Functions return at once; results are available after
// CudaDevice::Synchronize.
class JudgeKernels {
 public:
  // `cubins` are the compiled JudgeModules(). INVALID_ARGUMENT: they are not, or not for this
  // device.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<JudgeKernels>> Load(
      CudaDevice& device, std::span<const std::string> cubins);
  ~JudgeKernels();
  JudgeKernels(const JudgeKernels&) = delete;
  JudgeKernels& operator=(const JudgeKernels&) = delete;

  // `values` are `count` elements of `kept`, which is float32 or float64. Values beyond the range
  // of `dtype` become infinite, as they do in a correct candidate. The others are counted in
  // `statistics` on the device, which is zeroed first.
  [[nodiscard]] absl::Status Describe(DataType dtype, DataType kept, CUdeviceptr values,
                                      int64_t count, CUdeviceptr statistics);

  // Compares `count` elements of `dtype` with elements of `kept`, which is float32 or float64 for
  // floating-point types and `dtype` for integers, by
  // |got - expected| <= absolute + rtol * |expected|, or by another rule.
  // NaN agrees at most with NaN, an infinity only with the same infinity. `poison` is the word that
  // the output was filled with. `result` points to a TensorComparison on the device, which is reset
  // first.
  struct Comparison {
    DataType dtype = DataType::kFloat32;
    DataType kept = DataType::kFloat64;
    CUdeviceptr got = 0;
    CUdeviceptr expected = 0;
    int64_t count = 0;
    ComparisonRule rule = {};
    uint32_t poison = 0;
    CUdeviceptr result = 0;
  };
  [[nodiscard]] absl::Status Compare(const Comparison& comparison);

  // Adds the number of words that differ from `pattern` to the 8 bytes at `count`.
  [[nodiscard]] absl::Status CountChanged(CUdeviceptr words, int64_t word_count, uint32_t pattern,
                                          CUdeviceptr count);

  // Adds a hash of `word_count` 8-byte words, keyed by `seed`, to the 8 bytes at `sum`. Without the
  // key no change can be constructed that keeps the hash. Uses the finalizer of SplitMix64 (Steele
  // et al. 2014).
  [[nodiscard]] absl::Status Fingerprint(CUdeviceptr words, int64_t word_count, uint64_t seed,
                                         CUdeviceptr sum);

  // Writes all `count` values of an input; see DrawByCounter.
  [[nodiscard]] absl::Status Draw(DataType dtype, const DrawPlan& plan, uint64_t seed,
                                  CUdeviceptr to, int64_t count);
  // Replaces a few of `count` elements by those at `from`; see AlterByCounter.
  [[nodiscard]] absl::Status Alter(DataType dtype, uint64_t seed, CUdeviceptr from, CUdeviceptr to,
                                   int64_t count);

  HostileMemory& hostile() { return hostile_; }

 private:
  JudgeKernels(CudaDevice& device, const std::string& hostile_cubin)
      : device_(device), hostile_(device, hostile_cubin) {}
  absl::Status Launch(const std::string& name, int64_t elements, void** parameters);
  absl::Status Fill(CUdeviceptr at, const void* content, size_t bytes);

  CudaDevice& device_;
  HostileMemory hostile_;
  std::vector<CUmodule> modules_;
  std::map<std::string, CUfunction> functions_;  // by name
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_JUDGE_KERNELS_H_
