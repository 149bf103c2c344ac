#include "services/worker/cuda/language/pytorch/pytorch_language.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/hash.h"
#include "common/base/status.h"
#include "common/base/utf8.h"
#include "services/worker/cuda/language/device_code.h"
#include "services/worker/cuda/language/pytorch/recorded_program.h"
#include "services/worker/virtual_gpu/estimate/gpu_model.h"

namespace kernelcast::worker {
namespace {

// Candidates that touch less than this share of what the reference needs are not believed. Some
// need less than the reference, for example half of a triangular matrix.
constexpr double kLeastTouchedShare = 0.5;

// The first case that is timed.
size_t CaseToRecord(const Problem& problem) {
  const AxisValues& timed = problem.targets.at(std::string(kCudaTargetName)).bench_shapes.front();
  const auto& cases = problem.task->cases;
  const auto found =
      std::ranges::find_if(cases, [&](const PythonTask::Case& of) { return of.axes == timed; });
  return found == cases.end() ? 0 : static_cast<size_t>(found - cases.begin());
}

// Covers what a simulation of the source depends on.
std::string KeyOf(const CompileJob& job, const std::string& source) {
  ContentHasher hasher;
  hasher.Add(job.problem.problem_id).Add(job.gpu.name).Add(job.gpu.architecture).Add(source);
  return hasher.Hex128();
}

// One multiprocessor if the model is not known.
RecordedGpu RecordedGpuOf(const CompileGpu& gpu) {
  const virtual_gpu::GpuModel* const model = virtual_gpu::FindGpuModel(gpu.name, gpu.architecture);
  const auto capability = static_cast<int>(ArchitectureNumber(gpu.architecture));
  return {.name = model == nullptr ? gpu.name : std::string(model->name),
          .multiprocessors = model == nullptr ? 1 : model->multiprocessors,
          .capability_major = capability / 10,
          .capability_minor = capability % 10};
}

}  // namespace

absl::StatusOr<std::unique_ptr<Language>> PytorchLanguage::Open(const LanguageSetup& setup) {
  KC_ASSIGN_OR_RETURN(const PythonInterpreter python, setup.torch.get());
  return std::make_unique<PytorchLanguage>(python, setup.sandbox, setup.work_directory, setup.cache,
                                           setup.find);
}

absl::StatusOr<CompileResult> PytorchLanguage::Compile(const CompileJob& job,
                                                       const CancelToken& cancel) {
  const CompileGpu& gpu = job.gpu;
  KC_ASSIGN_OR_RETURN(CompileResult checked,
                      cache_.GetOrCompile(compiler_.ArtifactId(job.candidate.source), cancel, [&] {
                        return compiler_.Compile(*job.problem.task, job.gpu.architecture,
                                                 job.candidate.source, cancel);
                      }));
  PythonCompiler::RefuseTasks(job.problem, job.candidate, checked);
  // The source is the same for all architectures.
  if (auto* const success = std::get_if<CompileSuccess>(&checked.result)) {
    success->artifact.architecture = gpu.architecture;
    if (gpu.record_launches) KC_RETURN_IF_ERROR(AddRecorded(job, cancel, checked));
  }
  return checked;
}

absl::StatusOr<CudaProgram> PytorchLanguage::Load(const Candidate& candidate,
                                                  const Artifact& artifact,
                                                  const PythonTaskPrograms* task) const {
  if (task == nullptr) return absl::InvalidArgumentError("kind: the problem is no PyTorch task");
  if (artifact.content != candidate.source) {
    return absl::InvalidArgumentError("artifact: is not the candidate's source");
  }
  CudaProgram program;
  program.object = task->ProgramFor(candidate, {}).content;
  return program;
}

absl::StatusOr<PythonTaskPrograms> PytorchLanguage::Describe(const Problem& problem,
                                                             const CompileGpu& gpu,
                                                             const CancelToken& cancel) {
  return recorder_.Describe(problem, RecordedGpuOf(gpu), cancel);
}

absl::StatusOr<Recording> PytorchLanguage::Record(const CompileJob& job, const std::string& source,
                                                  const CancelToken& cancel) {
  return recorder_.Record(*job.problem.task, CaseToRecord(job.problem), source,
                          RecordedGpuOf(job.gpu), cancel);
}

absl::StatusOr<MadeOnce<Recording>::Shared> PytorchLanguage::RecordReference(
    const CompileJob& job, const CancelToken& cancel) {
  const std::string& source = job.problem.task->source;
  return references_.Get(KeyOf(job, source), cancel, [&] { return Record(job, source, cancel); });
}

absl::Status PytorchLanguage::AddRecorded(const CompileJob& job, const CancelToken& cancel,
                                          CompileResult& result) {
  const virtual_gpu::GpuModel* const gpu =
      virtual_gpu::FindGpuModel(job.gpu.name, job.gpu.architecture);
  if (gpu == nullptr) return absl::OkStatus();
  const int64_t start_ns = Clock::Real().MonotonicNs();
  KC_ASSIGN_OR_RETURN(const MadeOnce<Simulated>::Shared simulated,
                      simulated_.Get(KeyOf(job, job.candidate.source), cancel,
                                     [&] { return Simulate(job, *gpu, cancel); }));
  auto& success = std::get<CompileSuccess>(result.result);
  success.facts.simulations = simulated->simulations;
  if (!simulated->log.empty()) success.log = simulated->log;
  result.compile_ns += Clock::Real().MonotonicNs() - start_ns;
  return absl::OkStatus();
}

absl::StatusOr<PytorchLanguage::Simulated> PytorchLanguage::Simulate(
    const CompileJob& job, const virtual_gpu::GpuModel& gpu, const CancelToken& cancel) {
  const bool is_reference = job.candidate.source == job.problem.task->source;
  Recording recording;
  if (is_reference) {
    KC_ASSIGN_OR_RETURN(const MadeOnce<Recording>::Shared shared, RecordReference(job, cancel));
    recording = *shared;
  } else {
    KC_ASSIGN_OR_RETURN(recording, Record(job, job.candidate.source, cancel));
  }
  const auto not_simulated = [&](std::string reason) {
    return Simulated{{NotSimulated(gpu, std::move(reason))}, ""};
  };
  if (!recording.not_recorded.empty()) return not_simulated(recording.not_recorded);
  std::vector<ShapeSimulation> simulations;
  if (!recording.launches.empty()) {
    const auto program = MakeRecordedProgram(recording);
    if (!program.ok()) return not_simulated(std::string(program.status().message()));
    const auto triton = find_(program->candidate.kind);
    if (!triton.ok()) return not_simulated(std::string(triton.status().message()));
    const CompileJob kernels{program->problem,
                             program->problem.targets.at(std::string(kCudaTargetName)),
                             program->candidate, job.gpu};
    KC_ASSIGN_OR_RETURN(CompileResult compiled, (*triton)->Compile(kernels, cancel));
    if (const auto* error = std::get_if<CompileError>(&compiled.result)) {
      return not_simulated(absl::StrCat("its Triton kernels do not compile: ",
                                        std::string(TruncateUtf8(error->log, kMaxReasonBytes))));
    }
    simulations = std::move(std::get<CompileSuccess>(compiled.result).facts.simulations);
  }
  if (simulations.empty()) simulations.push_back(EmptySimulation(gpu));
  if (!recording.operations.empty()) {
    simulations.front().launches.push_back(SimulateOperations(recording.operations, gpu));
  }
  std::string log = DescribeShares(simulations.front(), recording.operations);
  if (!log.empty() && !is_reference) {
    KC_ASSIGN_OR_RETURN(const MadeOnce<Recording>::Shared reference, RecordReference(job, cancel));
    const double needed = reference->needed_bytes;
    const double touched = TouchedBytes(simulations.front());
    if (touched < kLeastTouchedShare * needed) {
      return not_simulated(absl::StrCat("it touches ", std::llround(touched),
                                        " bytes of memory, and the reference needs ",
                                        std::llround(needed)));
    }
  }
  return Simulated{std::move(simulations), std::move(log)};
}

}  // namespace kernelcast::worker
