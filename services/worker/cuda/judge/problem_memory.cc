#include "services/worker/cuda/judge/problem_memory.h"

#include <algorithm>
#include <utility>

#include "common/base/status.h"
#include "services/worker/core/tensor.h"

namespace kernelcast::worker {
namespace {

// Arenas begin at a random multiple of kTensorAlignment below this. Larger offsets vary anyway.
constexpr uint64_t kPaddingRange = uint64_t{1} << 20;

}  // namespace

absl::Status ProblemMemory::Allocate(uint64_t inputs_bytes, uint64_t outputs_bytes) {
  inputs_bytes_ = inputs_bytes;
  outputs_bytes_ = outputs_bytes;
  KC_ASSIGN_OR_RETURN(inputs_, MakeArena(inputs_bytes_));
  KC_ASSIGN_OR_RETURN(outputs_, MakeArena(outputs_bytes_));
  KC_ASSIGN_OR_RETURN(reference_outputs_, MakeArena(outputs_bytes_));
  KC_ASSIGN_OR_RETURN(scratch_, MakeArena(scratch_bytes_));
  return absl::OkStatus();
}

absl::Status ProblemMemory::AddWeights(
    uint64_t bytes, const std::function<absl::Status(const SharedArena& arena)>& fill) {
  KC_ASSIGN_OR_RETURN(SharedArena weights, MakeArena(bytes));
  KC_RETURN_IF_ERROR(device_.Synchronize());
  KC_RETURN_IF_ERROR(fill(weights));
  weights_ = std::move(weights);
  weights_bytes_ = bytes;
  return absl::OkStatus();
}

absl::StatusOr<SharedArena> ProblemMemory::MakeArena(uint64_t bytes) {
  KC_ASSIGN_OR_RETURN(
      SharedArena arena,
      SharedArena::Create(
          device_, bytes,
          kTensorAlignment * placement_random_.Below(kPaddingRange / kTensorAlignment)));
  // It may be memory that held results recently.
  KC_RETURN_IF_ERROR(
      device_.Check(device_.api().MemsetD8Async(arena.address() - arena.padding(), 0xff,
                                                arena.mapped_bytes(), device_.stream()),
                    "clearing memory"));
  return arena;
}

absl::Status ProblemMemory::Relocate() {
  const auto move = [&](SharedArena& arena, uint64_t bytes, bool keep_content) -> absl::Status {
    // Allocate before freeing the old arena, or the driver would return the same memory.
    absl::StatusOr<SharedArena> moved = MakeArena(bytes);
    if (absl::IsResourceExhausted(moved.status())) {
      return absl::OkStatus();
    }
    KC_RETURN_IF_ERROR(moved.status());
    if (keep_content && bytes > 0) {
      KC_RETURN_IF_ERROR(device_.Copy(moved->address(), arena.address(), bytes, "moving inputs"));
    }
    KC_RETURN_IF_ERROR(device_.Synchronize());
    arena = *std::move(moved);
    return absl::OkStatus();
  };
  KC_RETURN_IF_ERROR(move(inputs_, inputs_bytes_, true));
  KC_RETURN_IF_ERROR(move(outputs_, outputs_bytes_, false));
  KC_RETURN_IF_ERROR(move(reference_outputs_, outputs_bytes_, false));
  if (has_weights()) KC_RETURN_IF_ERROR(move(weights_, weights_bytes_, true));
  return move(scratch_, scratch_bytes_, false);
}

absl::StatusOr<bool> ProblemMemory::ExchangeOutputs() {
  if (other_outputs_.mapped_bytes() == 0) {
    absl::StatusOr<SharedArena> made = MakeArena(outputs_bytes_);
    if (absl::IsResourceExhausted(made.status())) return false;
    KC_RETURN_IF_ERROR(made.status());
    other_outputs_ = *std::move(made);
  }
  std::swap(outputs_, other_outputs_);
  return true;
}

uint64_t ProblemMemory::bytes() const {
  uint64_t bytes = other_outputs_.mapped_bytes();
  for (const SharedArena* arena :
       {&inputs_, &weights_, &outputs_, &reference_outputs_, &scratch_}) {
    bytes += arena->mapped_bytes();
  }
  return bytes;
}

absl::Status ProblemMemory::Map(CudaRunner& runner, Arena number, const CancelToken& cancel) {
  const SharedArena& arena = number == CudaCasePlan::kInputs             ? inputs_
                             : number == CudaCasePlan::kOutputs          ? outputs_
                             : number == CudaCasePlan::kReferenceOutputs ? reference_outputs_
                             : number == CudaCasePlan::kWeights          ? weights_
                                                                         : scratch_;
  const bool writable = number != CudaCasePlan::kInputs && number != CudaCasePlan::kWeights;
  return AnswerStatus(device_.api(),
                      runner.Map(number, arena.fd(), arena.mapped_bytes(), writable, cancel,
                                 static_cast<uint32_t>(arena.padding())),
                      cancel, "mapping memory");
}

absl::Status ProblemMemory::ReserveScratch(uint64_t bytes, CudaRunner& runner,
                                           const CancelToken& cancel) {
  if (bytes <= scratch_.bytes()) {
    scratch_bytes_ = std::max(scratch_bytes_, bytes);
    return absl::OkStatus();
  }
  KC_ASSIGN_OR_RETURN(SharedArena larger, MakeArena(bytes));
  KC_RETURN_IF_ERROR(AnswerStatus(device_.api(), runner.Unmap(CudaCasePlan::kScratch, cancel),
                                  cancel, "unmapping the workspace"));
  const auto map = [&](const SharedArena& arena) {
    return AnswerStatus(device_.api(),
                        runner.Map(CudaCasePlan::kScratch, arena.fd(), arena.mapped_bytes(), true,
                                   cancel, static_cast<uint32_t>(arena.padding())),
                        cancel, "mapping the workspace");
  };
  absl::Status mapped = map(larger);
  if (mapped.ok()) {
    scratch_ = std::move(larger);
    scratch_bytes_ = bytes;
    return absl::OkStatus();
  }
  if (absl::IsResourceExhausted(mapped)) {
    if (const absl::Status back = map(scratch_); !back.ok()) {
      return absl::UnavailableError(back.message());
    }
  }
  return mapped;
}

absl::Status ProblemMemory::ClearOutputs() {
  for (const SharedArena* arena : {&outputs_, &scratch_}) {
    KC_RETURN_IF_ERROR(device_.Check(
        device_.api().MemsetD8Async(arena->address(), 0xff, arena->bytes(), device_.stream()),
        "clearing memory"));
  }
  return device_.Synchronize();
}

absl::Status ProblemMemory::ClearReferenceOutputs() {
  KC_RETURN_IF_ERROR(
      device_.Check(device_.api().MemsetD8Async(reference_outputs_.address(), 0xff,
                                                reference_outputs_.bytes(), device_.stream()),
                    "overwriting outputs"));
  return device_.Synchronize();
}

absl::Status ProblemMemory::ResetGuards(const Case& at) {
  for (const Place& place : at.outputs) {
    for (const CUdeviceptr guard : GuardAddresses(place)) {
      KC_RETURN_IF_ERROR(
          device_.Check(device_.api().MemsetD32Async(
                            guard, kGuardPattern, CudaCasePlan::kGuardBytes / 4, device_.stream()),
                        "writing guards"));
    }
  }
  return absl::OkStatus();
}

absl::Status ProblemMemory::FillOutputs(Arena outputs, const Case& at, uint32_t pattern) {
  for (const Place& place : at.outputs) {
    // Rounds up into the guard's place: an output may end within a word.
    const uint64_t words = (place.bytes + 3) / 4;
    KC_RETURN_IF_ERROR(device_.Check(device_.api().MemsetD32Async(OutputAddress(outputs, place),
                                                                  pattern, words, device_.stream()),
                                     "filling outputs"));
  }
  return absl::OkStatus();
}

absl::Status ProblemMemory::FillWorkspace(uint64_t bytes, uint32_t pattern) {
  if (bytes == 0) {
    return absl::OkStatus();
  }
  return device_.Check(device_.api().MemsetD32Async(scratch_.address(), pattern,
                                                    std::min<uint64_t>(bytes, scratch_.bytes()) / 4,
                                                    device_.stream()),
                       "filling the workspace");
}

CUdeviceptr ProblemMemory::OutputAddress(Arena outputs, const Place& place) const {
  return (outputs == CudaCasePlan::kOutputs ? outputs_ : reference_outputs_).address() +
         place.offset;
}

std::array<CUdeviceptr, 2> ProblemMemory::GuardAddresses(const Place& place) const {
  const CUdeviceptr at = OutputAddress(CudaCasePlan::kOutputs, place);
  return {at - CudaCasePlan::kGuardBytes, at + (place.bytes + 3) / 4 * 4};
}

}  // namespace kernelcast::worker
