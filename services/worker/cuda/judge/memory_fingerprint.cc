#include "services/worker/cuda/judge/memory_fingerprint.h"

#include "common/base/status.h"

namespace kernelcast::worker {

absl::StatusOr<uint64_t> MemoryFingerprint::Of(std::span<const Region> regions) {
  // Kept: a candidate may leave no memory for another.
  if (sum_.address() == 0) {
    KC_ASSIGN_OR_RETURN(sum_, DeviceBuffer::Allocate(device_, sizeof(uint64_t)));
  }
  const CudaApi& api = device_.api();
  KC_RETURN_IF_ERROR(device_.Check(
      api.MemsetD8Async(sum_.address(), 0, sizeof(uint64_t), device_.stream()), "clearing a sum"));
  for (size_t i = 0; i < regions.size(); ++i) {
    KC_RETURN_IF_ERROR(kernels_.Fingerprint(
        regions[i].address, static_cast<int64_t>(regions[i].words), seed_ + i, sum_.address()));
  }
  uint64_t fingerprint = 0;
  KC_RETURN_IF_ERROR(
      device_.Read(&fingerprint, sum_.address(), sizeof(fingerprint), "reading a sum"));
  return fingerprint;
}

}  // namespace kernelcast::worker
