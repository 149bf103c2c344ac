#ifndef KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_PROBLEM_MEMORY_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_PROBLEM_MEMORY_H_

#include <array>
#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/secret_random.h"
#include "services/worker/core/cancel.h"
#include "services/worker/cuda/judge/cuda_case_plan.h"
#include "services/worker/cuda/judge/device.h"
#include "services/worker/cuda/judge/runner_client.h"

namespace kernelcast::worker {

// The arenas that a problem's runners map: inputs, weights, outputs of both sides, and scratch.
// Each begins at a random offset, because candidates see addresses and because the placement of
// arenas changes a kernel's time by a percent and more. Not thread-safe.
class ProblemMemory {
 public:
  using Arena = CudaCasePlan::Arena;
  using Place = CasePlan::Place;
  using Case = CasePlan::Case;

  static constexpr uint32_t kGuardPattern = 0xa5c35a3c;

  // `device` must outlive the memory.
  ProblemMemory(CudaDevice& device, const SecretKey& key)
      : device_(device), placement_random_(key, "placement") {}

  // Must succeed before the other calls.
  [[nodiscard]] absl::Status Allocate(uint64_t inputs_bytes, uint64_t outputs_bytes);

  // Device memory in use.
  uint64_t bytes() const;

  // Adds the arena of weights, which is read-only for runners. `fill` writes it.
  [[nodiscard]] absl::Status AddWeights(
      uint64_t bytes, const std::function<absl::Status(const SharedArena& arena)>& fill);
  bool has_weights() const { return weights_bytes_ > 0; }

  // Moves all arenas to other memory, each with a random offset. For a runner that is about to be
  // attached; none may be attached now. An arena stays where it is if the device has no room for a
  // copy.
  [[nodiscard]] absl::Status Relocate();

  // Gives the next host-launched candidate other memory for its outputs than the last one, whose
  // process may still write to its own. That process must have ended before the next call. Returns
  // false if the device has no room.
  [[nodiscard]] absl::StatusOr<bool> ExchangeOutputs();

  // Maps an arena into a runner, inputs and weights read-only.
  [[nodiscard]] absl::Status Map(CudaRunner& runner, Arena number, const CancelToken& cancel);
  // Grows the scratch arena to the requested size and maps it into the runner, which then needs all
  // its programs again. RESOURCE_EXHAUSTED: the arena is unchanged.
  [[nodiscard]] absl::Status ReserveScratch(uint64_t bytes, CudaRunner& runner,
                                            const CancelToken& cancel);

  // Fills all outputs and the workspace with NaN, so that nothing of a candidate is left for the
  // next. Waits for it.
  [[nodiscard]] absl::Status ClearOutputs();
  // The same for the reference's own outputs.
  [[nodiscard]] absl::Status ClearReferenceOutputs();
  // The others enqueue work on the device's stream. ResetGuards writes the guards of a case's
  // outputs.
  [[nodiscard]] absl::Status ResetGuards(const Case& at);
  // Fills the outputs of a case, or the first bytes of the workspace, with a word.
  [[nodiscard]] absl::Status FillOutputs(Arena outputs, const Case& at, uint32_t pattern);
  [[nodiscard]] absl::Status FillWorkspace(uint64_t bytes, uint32_t pattern);

  CUdeviceptr inputs() const { return inputs_.address(); }
  CUdeviceptr OutputAddress(Arena outputs, const Place& place) const;
  // Guards of kGuardBytes each, before and after an output in kOutputs.
  std::array<CUdeviceptr, 2> GuardAddresses(const Place& place) const;

 private:
  absl::StatusOr<SharedArena> MakeArena(uint64_t bytes);

  CudaDevice& device_;
  SecretRandom placement_random_;
  uint64_t inputs_bytes_ = 0;
  uint64_t outputs_bytes_ = 0;
  uint64_t scratch_bytes_ = 1;
  uint64_t weights_bytes_ = 0;
  SharedArena inputs_;
  SharedArena outputs_;
  SharedArena other_outputs_;  // empty until it is needed
  SharedArena reference_outputs_;
  SharedArena scratch_;
  SharedArena weights_;  // empty until it is needed
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_PROBLEM_MEMORY_H_
