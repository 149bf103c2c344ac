#ifndef KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_MEMORY_FINGERPRINT_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_MEMORY_FINGERPRINT_H_

#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "services/worker/cuda/judge/device.h"
#include "services/worker/cuda/judge/judge_kernels.h"

namespace kernelcast::worker {

// Hashes device memory on the device. Not thread-safe.
class MemoryFingerprint {
 public:
  struct Region {
    CUdeviceptr address = 0;
    uint64_t words = 0;  // of 8 bytes
  };

  // The references must outlive this object. Hashes of different seeds cannot be compared.
  MemoryFingerprint(CudaDevice& device, JudgeKernels& kernels, uint64_t seed)
      : device_(device), kernels_(kernels), seed_(seed) {}

  // Hash of the regions, in order, after all work of the device's stream. Waits for it.
  [[nodiscard]] absl::StatusOr<uint64_t> Of(std::span<const Region> regions);

 private:
  CudaDevice& device_;
  JudgeKernels& kernels_;
  const uint64_t seed_;
  DeviceBuffer sum_;  // one word; empty until it is needed
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_MEMORY_FINGERPRINT_H_
