#ifndef KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_HOSTILE_MEMORY_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_HOSTILE_MEMORY_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/worker/core/cancel.h"
#include "services/worker/cuda/judge/device.h"
#include "services/worker/cuda/judge/runner_client.h"

namespace kernelcast::worker {

// CUDA source and names of the kernels that fill memory.
std::string_view HostileKernelsSource();
std::vector<std::string> HostileKernelNames();

// Fills a runner's shared memory, its threads' local memory and their registers, on all
// multiprocessors, before a checked call. A kernel that reads uninitialised memory or lacks a
// barrier then computes wrong results. Also counts the calls that began, which shows in which call
// a runner died.
class HostileMemory {
 public:
  // The contents of memory before a call. kFinite: about 1e30 as a 32-bit float, large but finite
  // in the other types. kNan: NaN.
  enum Values : uint32_t { kFinite = 0, kNan = 1 };

  // `cubin` contains HostileKernelNames(). `device` must outlive this object.
  HostileMemory(CudaDevice& device, std::string cubin)
      : device_(device), cubin_(std::move(cubin)) {}

  // Loads the kernels into a runner, once. A runner for a shared object must not have loaded it
  // yet. UNAVAILABLE: the runner failed.
  [[nodiscard]] absl::Status Attach(CudaRunner& runner, const CancelToken& cancel);

  // The record to run before a call.
  static cuda_runner::RunRecord Fill(Values values) { return {cuda_runner::kHostile, values}; }

  // Enqueues a reset of the counter on the device's stream.
  [[nodiscard]] absl::Status ResetCount();
  // Returns the number of fills since the reset. Waits for the device's stream; does not need the
  // runner.
  [[nodiscard]] absl::StatusOr<uint32_t> Count();

 private:
  absl::StatusOr<std::vector<cuda_runner::Program>> Programs() const;

  CudaDevice& device_;
  const std::string cubin_;
  SharedArena count_;  // one word; made when first needed
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_HOSTILE_MEMORY_H_
