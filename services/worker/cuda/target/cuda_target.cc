#include "services/worker/cuda/target/cuda_target.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/process/child_process.h"
#include "services/worker/artifacts/artifact_cache.h"
#include "services/worker/artifacts/compile_cache.h"
#include "services/worker/core/launch_plan.h"
#include "services/worker/cuda/api/cuda_toolkit.h"
#include "services/worker/cuda/api/nvml_api.h"
#include "services/worker/cuda/compiler/admission.h"
#include "services/worker/cuda/judge/device.h"
#include "services/worker/cuda/judge/judge_kernels.h"
#include "services/worker/cuda/probe/machine.h"

namespace kernelcast::worker {
namespace {

std::string DriverVersion(const NvmlApi& nvml) {
  std::array<char, 96> version{};
  return nvml.SystemGetDriverVersion(version.data(), version.size()) == nvml::kSuccess
             ? std::string(version.data())
             : "";
}

constexpr int64_t kProbeLimitNs = 10'000'000'000;

}  // namespace

absl::StatusOr<std::unique_ptr<CudaTarget>> CudaTarget::Make(CudaTargetOptions options) {
  std::unique_ptr<CudaTarget> target(new CudaTarget(std::move(options)));
  TargetInfo& info = target->info_;
  info.target = std::string(kCudaTargetName);
  info.fact_schema = std::string(kCudaPtxSchemaId);
  for (const std::string_view flag : AllowedCudaFlags()) {
    info.allowed_flags.emplace_back(flag);
  }
  const auto facts = target->ProbeDevice();
  absl::Status device = facts.status();
  const absl::Status toolchain = target->ProbeToolchain(facts.ok() ? &*facts : nullptr, device);
  info.can_compile = toolchain.ok();
  if (!toolchain.ok()) {
    if (absl::IsInternal(toolchain)) return toolchain;
    info.unavailable_reason = absl::StrCat("cannot compile: ", toolchain.message());
    return target;
  }
  if (!device.ok()) {
    info.unavailable_reason = absl::StrCat("cannot measure: ", device.message());
    return target;
  }
  KC_ASSIGN_OR_RETURN(
      target->lease_,
      TimingLease::Open(target->options_.lease_directory.empty()
                            ? ""
                            : absl::StrCat(target->options_.lease_directory, "/kernelcast-",
                                           info.device.uuid, ".lock")));
  CudaMeasurerOptions measurer;
  measurer.measure = target->options_.measure;
  measurer.runner.path = absl::StrCat(target->options_.program_folder, "/kernelcast-cuda-runner");
  measurer.runner.object_uid = target->options_.untrusted_uid;
  measurer.runner.object_memory_bytes = target->options_.host_memory_bytes;
  measurer.prepared_problems = target->options_.prepared_problems;
  measurer.candidates_per_runner = target->options_.candidates_per_runner;
  measurer.runner.library_folder = target->cublas_folder_;
  measurer.profile.cupti_library = target->cupti_library_;
  target->measurer_ =
      std::make_unique<CudaMeasurer>(*target->api_, *target->monitor_, std::move(measurer));
  if (const absl::Status started = target->measurer_->StartRunner(CancelToken()); !started.ok()) {
    info.unavailable_reason = absl::StrCat("cannot measure: ", started.message());
    return target;
  }
  target->ProbeRunnerSandbox();
  info.can_measure = true;
  target->ProbeCounters();
  return target;
}

void CudaTarget::ProbeCounters() {
  const CountersReport counters = ReportCountersHere(cupti_library_);
  info_.hardware_counters = counters.permitted;
  if (!counters.permitted) {
    info_.unavailable_reason = absl::StrCat("no hardware counters: ", counters.reason);
  }
}

absl::StatusOr<DeviceFacts> CudaTarget::ProbeDevice() {
  KC_ASSIGN_OR_RETURN(api_, LoadCudaApi());
  KC_ASSIGN_OR_RETURN(DeviceFacts facts, DescribeDevice(*api_));
  info_.device = facts.info;
  const auto nvml = LoadNvmlApi();
  if (nvml.ok()) {
    info_.device.driver_version = DriverVersion(**nvml);
  } else {
    Log(LogLevel::kWarning, "clocks and temperatures are not watched",
        {{"reason", std::string(nvml.status().message())}});
  }
  monitor_ = std::make_unique<DeviceMonitor>(nvml.ok() ? *nvml : nullptr, info_.device.uuid);
  return facts;
}

absl::Status CudaTarget::ProbeToolchain(const DeviceFacts* device, absl::Status& fits) {
  KC_ASSIGN_OR_RETURN(const CudaToolkit toolkit,
                      FindCudaToolkit(CudaHomes(options_.cuda_home, options_.program_folder)));
  KC_ASSIGN_OR_RETURN(auto artifacts,
                      ArtifactCache::Open(options_.cache_directory, options_.max_cache_bytes));
  cache_ = std::make_unique<CompileCache>(std::move(artifacts));
  CudaCompilerOptions compiler;
  compiler.process.program = absl::StrCat(options_.program_folder, "/kernelcast-cuda-compiler");
  compiler.process.toolkit = toolkit;
  compiler.process.uid = options_.untrusted_uid;
  compiler.max_processes = options_.compile_processes;
  KC_ASSIGN_OR_RETURN(compiler_, CudaCompiler::Make(std::move(compiler), *cache_));
  info_.toolchain = compiler_->toolchain().description;
  cupti_library_ = toolkit.cupti_library;
  cublas_folder_ = std::filesystem::path(toolkit.cublas_library).parent_path().string();
  info_.missing_protections = compiler_->missing_protections();
  ProbeNvcc(toolkit);
  const CudaToolchain& toolchain = compiler_->toolchain();
  std::optional<std::string> own;
  if (device != nullptr) {
    own = toolchain.ArchitectureOf(device->compute_capability_major,
                                   device->compute_capability_minor);
  }
  info_.architecture = !options_.architecture.empty()
                           ? options_.architecture
                           : own.value_or(std::string(kDefaultArchitecture));
  if (device != nullptr && own != info_.architecture) {
    fits = absl::FailedPreconditionError(
        absl::StrCat("compiles for ", info_.architecture, ", and the device is ",
                     own.value_or("none that this toolkit knows")));
  }
  const std::vector<std::string>& known = toolchain.architectures;
  if (std::find(known.begin(), known.end(), info_.architecture) == known.end()) {
    return absl::UnavailableError(
        absl::StrCat("this toolkit does not compile for ", info_.architecture));
  }
  return absl::OkStatus();
}

void CudaTarget::ProbeNvcc(const CudaToolkit& toolkit) {
  NvccOptions options;
  options.toolkit = toolkit;
  options.host_compiler = options_.host_compiler;
  options.work_directory = options_.cache_directory;
  options.include_directories = options_.include_directories;
  auto made = NvccCompiler::Make(std::move(options), *cache_);
  if (made.ok()) {
    nvcc_ = *std::move(made);
  } else {
    no_nvcc_reason_ = std::string(made.status().message());
    Log(LogLevel::kInfo, "no host-launched CUDA candidates", {{"reason", no_nvcc_reason_}});
  }
}

void CudaTarget::ProbeRunnerSandbox() {
  ChildOptions child;
  child.argv = {absl::StrCat(options_.program_folder, "/kernelcast-cuda-runner"), "--probe-sandbox",
                absl::StrCat(options_.untrusted_uid)};
  const auto spawned = ChildProcess::Spawn(child);
  if (!spawned.ok()) {
    return;  // starting a runner says why
  }
  const ChildExit exit = (*spawned)->Wait(kProbeLimitNs);
  for (const auto name : absl::StrSplit(exit.output, '\n', absl::SkipEmpty())) {
    std::vector<std::string>& missing = info_.missing_protections;
    if (std::find(missing.begin(), missing.end(), name) == missing.end()) {
      missing.emplace_back(name);
    }
  }
}

absl::StatusOr<CompileResult> CudaTarget::Compile(const Problem& problem,
                                                  const Candidate& candidate,
                                                  const CancelToken& cancel) {
  const bool hosted = candidate.kind == CandidateKind::kHostNative;
  if (!hosted && candidate.kind != CandidateKind::kDeviceCuda) {
    return absl::InvalidArgumentError(
        "the cuda target takes candidates of kinds device_cuda and host_native");
  }
  if (!info_.can_compile) {
    return absl::UnimplementedError(info_.unavailable_reason);
  }
  if (hosted && nvcc_ == nullptr) {
    return absl::UnimplementedError(
        absl::StrCat("cannot compile host-launched candidates: ", no_nvcc_reason_));
  }
  const auto target = problem.targets.find(kCudaTargetName);
  if (target == problem.targets.end()) {
    return absl::FailedPreconditionError(
        absl::StrCat("problem ", problem.name, " has no reference for target cuda"));
  }
  if (hosted) {
    return nvcc_->Compile(candidate.source, candidate.flags, info_.architecture, cancel);
  }
  const absl::Status plans = CheckPlans(problem, target->second, candidate.launches,
                                        candidate.workspace_bytes, candidate.tunables);
  if (!plans.ok()) {
    CompileResult refused;
    refused.result = CompileError{CompileStage::kAdmission, std::string(plans.message())};
    return refused;
  }
  KC_ASSIGN_OR_RETURN(CompileResult result,
                      compiler_->Compile(candidate.source, candidate.flags,
                                         LaunchShapesOf(candidate.launches, candidate.tunables),
                                         info_.architecture, cancel));
  if (auto* success = std::get_if<CompileSuccess>(&result.result)) {
    KC_RETURN_IF_ERROR(AddSimulations(problem, target->second, candidate, cancel, *success));
  }
  return result;
}

absl::Status CudaTarget::AddSimulations(const Problem& problem, const ProblemTarget& target,
                                        const Candidate& candidate, const CancelToken& cancel,
                                        CompileSuccess& success) {
  KC_ASSIGN_OR_RETURN(const Cubin cubin, ReadCubin(success.artifact.content));
  std::vector<SimulationPlan> plans;
  for (const AxisValues& shape : target.bench_shapes) {
    KC_ASSIGN_OR_RETURN(SimulationPlan plan,
                        PlanSimulation(problem, candidate.launches, candidate.workspace_bytes,
                                       candidate.tunables, shape, cubin));
    plans.push_back(std::move(plan));
  }
  const std::string ptx = std::move(success.ptx);
  success.ptx.clear();
  KC_ASSIGN_OR_RETURN(
      success.facts.simulations,
      compiler_->Simulate(ptx, std::move(plans), info_.device.model, info_.architecture, cancel));
  return absl::OkStatus();
}

absl::StatusOr<CompileResult> CudaTarget::CompileReference(const Problem& problem,
                                                           const CancelToken& cancel) {
  KC_ASSIGN_OR_RETURN(const Candidate reference, ReferenceCandidate(problem, kCudaTargetName));
  return Compile(problem, reference, cancel);
}

absl::StatusOr<Artifact> CudaTarget::Resolve(const Candidate& candidate, const Artifact& sent) {
  if (!info_.can_compile) {
    return absl::UnimplementedError(info_.unavailable_reason);
  }
  std::string id;
  if (candidate.kind != CandidateKind::kHostNative) {
    id = compiler_->ArtifactId(candidate.source, candidate.flags, info_.architecture);
  } else if (nvcc_ != nullptr) {
    id = nvcc_->ArtifactId(candidate.source, candidate.flags, info_.architecture);
  } else {
    return absl::UnimplementedError(
        absl::StrCat("cannot tell which object belongs to the candidate: ", no_nvcc_reason_));
  }
  KC_RETURN_IF_ERROR(CheckSent(info_, id, sent));
  if (!sent.content.empty()) {
    return sent;
  }
  auto cached = compiler_->Find(id);
  if (!cached) {
    return absl::FailedPreconditionError("the artefact is neither sent nor cached");
  }
  return *std::move(cached);
}

absl::StatusOr<CudaProgram> CudaTarget::CompileTrusted(const KernelProgram& program,
                                                       const std::string& what,
                                                       const CancelToken& cancel) {
  KC_ASSIGN_OR_RETURN(
      const CompileResult compiled,
      compiler_->Compile(program.source, program.flags, LaunchShapesOf(program.launches, {}),
                         info_.architecture, cancel));
  if (const auto* error = std::get_if<CompileError>(&compiled.result)) {
    return absl::FailedPreconditionError(
        absl::StrCat("the ", what, " does not compile: ", error->log.substr(0, 2000)));
  }
  return CudaProgram{std::get<CompileSuccess>(compiled.result).artifact.content,
                     program.launches,
                     program.workspace_bytes,
                     {}};
}

absl::StatusOr<CudaPrograms> CudaTarget::CompileAll(const Problem& problem,
                                                    const Candidate& candidate,
                                                    const Artifact& artifact,
                                                    const CancelToken& cancel) {
  if (!info_.can_measure) {
    return absl::UnimplementedError(info_.unavailable_reason);
  }
  const auto target = problem.targets.find(kCudaTargetName);
  if (target == problem.targets.end() || !target->second.oracle) {
    return absl::FailedPreconditionError(
        absl::StrCat("problem ", problem.name, " has no reference or no oracle for target cuda"));
  }
  KernelProgram judge;
  judge.source = std::string(JudgeKernelsSource());
  CudaPrograms programs;
  KC_ASSIGN_OR_RETURN(CudaProgram judge_program, CompileTrusted(judge, "judge", cancel));
  programs.judge = std::move(judge_program.cubin);
  KC_ASSIGN_OR_RETURN(programs.reference,
                      CompileTrusted(target->second.reference, "problem's reference", cancel));
  KC_ASSIGN_OR_RETURN(programs.oracle,
                      CompileTrusted(*target->second.oracle, "problem's oracle", cancel));
  if (candidate.kind == CandidateKind::kHostNative) {
    programs.candidate.object = artifact.content;
  } else {
    programs.candidate = {artifact.content, candidate.launches, candidate.workspace_bytes,
                          candidate.tunables};
  }
  return programs;
}

absl::StatusOr<Measurement> CudaTarget::Measure(const Problem& problem, const Candidate& candidate,
                                                const Artifact& artifact, MeasureLevel level,
                                                const CancelToken& cancel) {
  KC_ASSIGN_OR_RETURN(const CudaPrograms programs,
                      CompileAll(problem, candidate, artifact, cancel));
  KC_ASSIGN_OR_RETURN(const TimingLease::Held held, lease_->Acquire(cancel));
  const int64_t start_ns = Clock::Real().MonotonicNs();
  auto outcome = measurer_->Measure(problem, programs, level, cancel);
  last_times_ = measurer_->times().judge;
  KC_RETURN_IF_ERROR(outcome.status());
  Measurement measurement = RecordOf(info_, options_.worker_id, kCudaProtocolVersion, candidate,
                                     artifact, level, start_ns, *std::move(outcome));
  Log(LogLevel::kDebug, "measured a candidate",
      {{"candidate_id", candidate.candidate_id},
       {"outcome", OutcomeName(measurement.outcome)},
       {"prepare_us", measurer_->times().prepare_ns / 1000},
       {"load_us", last_times_.load_ns / 1000},
       {"check_us", last_times_.check_ns / 1000},
       {"timing_us", last_times_.timing_ns / 1000},
       {"fresh_us", last_times_.fresh_ns / 1000}});
  return measurement;
}

absl::StatusOr<Profile> CudaTarget::ProfileCandidate(const Problem& problem,
                                                     const Candidate& candidate,
                                                     const Artifact& artifact,
                                                     const CancelToken& cancel) {
  KC_ASSIGN_OR_RETURN(const CudaPrograms programs,
                      CompileAll(problem, candidate, artifact, cancel));
  KC_ASSIGN_OR_RETURN(const TimingLease::Held held, lease_->Acquire(cancel));
  auto profile = measurer_->ProfileCandidate(problem, programs, cancel);
  Log(LogLevel::kDebug, "profiled a candidate",
      {{"candidate_id", candidate.candidate_id},
       {"device_time_us", profile.ok() ? profile->device_time_ns / 1000 : 0},
       {"unavailable_reason",
        profile.ok() ? profile->unavailable_reason : std::string(profile.status().message())}});
  return profile;
}

}  // namespace kernelcast::worker
