// How CudaCompilers estimates Python candidates without a GPU.
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/base/utf8.h"
#include "services/worker/cuda/target/cuda_compilers.h"
#include "services/worker/cuda/target/recorded_program.h"
#include "services/worker/virtual_gpu/estimate/gpu_model.h"

namespace kernelcast::worker {

absl::Status CudaCompilers::AddRecorded(const Problem& problem, const Candidate& candidate,
                                        const DeviceModel& model, const CancelToken& cancel,
                                        CompileSuccess& success) {
  const virtual_gpu::GpuModel* const gpu =
      virtual_gpu::FindGpuModel(model.name, model.architecture);
  if (gpu == nullptr) return absl::OkStatus();
  const auto capability = static_cast<int>(ArchitectureNumber(model.architecture));
  KC_ASSIGN_OR_RETURN(const Recording recording,
                      recorder_->Record(*problem.task, 0, candidate.source,
                                        {.name = std::string(gpu->name),
                                         .multiprocessors = gpu->multiprocessors,
                                         .capability_major = capability / 10,
                                         .capability_minor = capability % 10},
                                        cancel));
  const auto not_simulated = [&](std::string reason) {
    success.facts.simulations = {NotSimulated(*gpu, std::move(reason))};
    return absl::OkStatus();
  };
  if (!recording.not_recorded.empty()) return not_simulated(recording.not_recorded);
  std::vector<ShapeSimulation> simulations;
  if (!recording.launches.empty()) {
    const auto program = MakeRecordedProgram(recording);
    if (!program.ok()) return not_simulated(std::string(program.status().message()));
    if (triton_ == nullptr) {
      return not_simulated(
          absl::StrCat("its Triton kernels cannot be compiled: ", no_triton_reason_));
    }
    KC_ASSIGN_OR_RETURN(
        CompileResult compiled,
        CompileTriton(program->problem, program->problem.targets.at(std::string(kCudaTargetName)),
                      program->candidate, model, cancel));
    if (const auto* error = std::get_if<CompileError>(&compiled.result)) {
      return not_simulated(absl::StrCat("its Triton kernels do not compile: ",
                                        std::string(TruncateUtf8(error->log, kMaxReasonBytes))));
    }
    simulations = std::move(std::get<CompileSuccess>(compiled.result).facts.simulations);
  }
  if (simulations.empty()) simulations.push_back(EmptySimulation(*gpu));
  if (!recording.operations.empty()) {
    simulations.front().launches.push_back(SimulateOperations(recording.operations, *gpu));
  }
  success.log = DescribeShares(simulations.front(), recording.operations);
  success.facts.simulations = std::move(simulations);
  return absl::OkStatus();
}

}  // namespace kernelcast::worker
