// How CudaCompilers estimates Python candidates without a GPU.
#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
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
namespace {

// Candidates that touch less than this share of what the reference needs are not believed. Some
// need less than the reference, for example half of a triangular matrix.
constexpr double kLeastTouchedShare = 0.5;
// Of the problems in memory.
constexpr size_t kMaxProblems = 256;

// The first case that is timed.
size_t CaseToRecord(const Problem& problem) {
  const AxisValues& timed = problem.targets.at(std::string(kCudaTargetName)).bench_shapes.front();
  const auto& cases = problem.task->cases;
  const auto found =
      std::ranges::find_if(cases, [&](const PythonTask::Case& of) { return of.axes == timed; });
  return found == cases.end() ? 0 : static_cast<size_t>(found - cases.begin());
}

}  // namespace

absl::StatusOr<Recording> CudaCompilers::Record(const Problem& problem, const std::string& source,
                                                const virtual_gpu::GpuModel& gpu,
                                                const DeviceModel& model,
                                                const CancelToken& cancel) {
  const auto capability = static_cast<int>(ArchitectureNumber(model.architecture));
  return recorder_->Record(*problem.task, CaseToRecord(problem), source,
                           {.name = std::string(gpu.name),
                            .multiprocessors = gpu.multiprocessors,
                            .capability_major = capability / 10,
                            .capability_minor = capability % 10},
                           cancel);
}

absl::StatusOr<double> CudaCompilers::NeededBytes(const Problem& problem,
                                                  const virtual_gpu::GpuModel& gpu,
                                                  const DeviceModel& model,
                                                  const CancelToken& cancel) {
  {
    const std::lock_guard lock(mutex_);
    const auto known = needed_bytes_.find(problem.problem_id);
    if (known != needed_bytes_.end()) return known->second;
  }
  KC_ASSIGN_OR_RETURN(const Recording reference,
                      Record(problem, problem.task->source, gpu, model, cancel));
  const std::lock_guard lock(mutex_);
  if (needed_bytes_.size() >= kMaxProblems) needed_bytes_.clear();
  return needed_bytes_.insert({problem.problem_id, reference.needed_bytes}).first->second;
}

absl::Status CudaCompilers::AddRecorded(const Problem& problem, const Candidate& candidate,
                                        const DeviceModel& model, const CancelToken& cancel,
                                        CompileSuccess& success) {
  const virtual_gpu::GpuModel* const gpu =
      virtual_gpu::FindGpuModel(model.name, model.architecture);
  if (gpu == nullptr) return absl::OkStatus();
  KC_ASSIGN_OR_RETURN(const Recording recording,
                      Record(problem, candidate.source, *gpu, model, cancel));
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
  const std::string log = DescribeShares(simulations.front(), recording.operations);
  if (!log.empty() && candidate.source != problem.task->source) {
    KC_ASSIGN_OR_RETURN(const double needed, NeededBytes(problem, *gpu, model, cancel));
    const double touched = TouchedBytes(simulations.front());
    if (touched < kLeastTouchedShare * needed) {
      return not_simulated(absl::StrCat("it touches ", std::llround(touched),
                                        " bytes of memory, and the reference needs ",
                                        std::llround(needed)));
    }
  }
  success.log = log;
  success.facts.simulations = std::move(simulations);
  return absl::OkStatus();
}

}  // namespace kernelcast::worker
