#include "services/worker/cuda/target/cuda_compilers.h"

#include <cstdlib>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "services/worker/artifacts/artifact_cache.h"
#include "services/worker/core/launch_plan.h"
#include "services/worker/cuda/compiler/cubin.h"
#include "services/worker/cuda/compiler/kernel_parameters.h"
#include "services/worker/cuda/compiler/simulation_plan.h"

namespace kernelcast::worker {
namespace {

constexpr const char* kRunner = "kernelcast-cuda-runner";
constexpr const char* kPythonLibrary = "kernelcast-cuda-python-runner.so";

// For processes of Python tasks. They have one writable folder.
std::vector<std::string> PythonEnvironment(const CudaToolkit& toolkit,
                                           const PythonInterpreter& python) {
  std::vector<std::string> environment = {
      "LC_ALL=C.UTF-8", "USER=kernelcast", "HOME=/scratch", "TMPDIR=/scratch",
      "TRITON_CACHE_DIR=/scratch/triton", "TORCH_EXTENSIONS_DIR=/scratch/extensions",
      "TORCHINDUCTOR_CACHE_DIR=/scratch/inductor",
      // Otherwise it starts threads, which are denied.
      "TORCHINDUCTOR_COMPILE_THREADS=1", "CUDA_CACHE_DISABLE=1", "MAX_JOBS=2", "OMP_NUM_THREADS=1",
      "OPENBLAS_NUM_THREADS=1", "MKL_NUM_THREADS=1"};
  std::string path = "PATH=/usr/local/bin:/usr/bin:/bin";
  if (!python.tools.empty()) absl::StrAppend(&path, ":", python.tools);
  if (!toolkit.home.empty()) {
    environment.push_back(absl::StrCat("CUDA_HOME=", toolkit.home));
    absl::StrAppend(&path, ":", toolkit.home, "/bin");
  }
  environment.push_back(std::move(path));
  if (const char* const folders = std::getenv("LD_LIBRARY_PATH"); folders != nullptr) {
    environment.push_back(absl::StrCat("LD_LIBRARY_PATH=", folders));
  }
  return environment;
}

CompileResult Refusal(std::string log) {
  CompileResult refused;
  refused.result = CompileError{CompileStage::kAdmission, std::move(log)};
  return refused;
}

}  // namespace

absl::StatusOr<std::unique_ptr<CudaCompilers>> CudaCompilers::Open(
    const CudaTargetOptions& options) {
  KC_ASSIGN_OR_RETURN(CudaToolkit toolkit,
                      FindCudaToolkit(CudaHomes(options.cuda_home, options.program_folder)));
  std::unique_ptr<CudaCompilers> made(new CudaCompilers(options, std::move(toolkit)));
  KC_ASSIGN_OR_RETURN(auto artifacts,
                      ArtifactCache::Open(options.cache_directory, options.max_cache_bytes));
  made->cache_ = std::make_unique<CompileCache>(std::move(artifacts));
  CudaCompilerOptions nvrtc;
  nvrtc.process.program = absl::StrCat(options.program_folder, "/kernelcast-cuda-compiler");
  nvrtc.process.toolkit = made->toolkit_;
  nvrtc.process.uid = options.untrusted_uid;
  nvrtc.max_processes = options.compile_processes;
  KC_ASSIGN_OR_RETURN(made->nvrtc_, CudaCompiler::Make(std::move(nvrtc), *made->cache_));
  {
    const std::jthread triton([&] { made->ProbeTriton(); });
    const std::jthread python([&] { made->ProbePython(); });
    made->ProbeNvcc();
  }
  return made;
}

void CudaCompilers::Fill(TargetInfo& info) const {
  info.toolchain = nvrtc_->toolchain().description;
  info.missing_protections = nvrtc_->missing_protections();
  info.candidate_kinds = {CandidateKind::kDeviceCuda};
  if (triton_ != nullptr) info.candidate_kinds.push_back(CandidateKind::kDeviceTriton);
  if (nvcc_ != nullptr) info.candidate_kinds.push_back(CandidateKind::kHostNative);
  if (python_ != nullptr) {
    info.candidate_kinds.push_back(CandidateKind::kPython);
  } else {
    info.missing_tools.push_back(absl::StrCat("no PyTorch tasks: ", no_python_reason_));
  }
  if (triton_ == nullptr) {
    info.missing_tools.push_back(absl::StrCat("no Triton candidates: ", no_triton_reason_));
  }
  if (nvcc_ == nullptr) {
    info.missing_tools.push_back(absl::StrCat("no host-launched candidates: ", no_nvcc_reason_));
  }
}

CompilerSandbox CudaCompilers::Sandbox() const {
  CompilerSandbox sandbox;
  sandbox.program = CompilerSandboxBeside(absl::StrCat(options_.program_folder, "/", kRunner));
  sandbox.uid = options_.untrusted_uid;
  return sandbox;
}

void CudaCompilers::ProbeNvcc() {
  NvccOptions options;
  options.toolkit = toolkit_;
  options.host_compiler = options_.host_compiler;
  options.work_directory = options_.cache_directory;
  options.include_directories = options_.include_directories;
  options.sandbox = Sandbox();
  auto made = NvccCompiler::Make(std::move(options), *cache_);
  if (made.ok()) {
    nvcc_ = *std::move(made);
  } else {
    no_nvcc_reason_ = std::string(made.status().message());
    Log(LogLevel::kInfo, "no host-launched CUDA candidates", {{"reason", no_nvcc_reason_}});
  }
}

void CudaCompilers::ProbeTriton() {
  TritonCompilerOptions options;
  options.python = options_.python;
  options.toolkit = toolkit_;
  options.work_directory = options_.cache_directory;
  options.sandbox = Sandbox();
  auto made = TritonCompiler::Make(std::move(options), *cache_);
  if (made.ok()) {
    triton_ = *std::move(made);
    Log(LogLevel::kInfo, "compiles Triton candidates", {{"toolchain", triton_->description()}});
  } else {
    no_triton_reason_ = std::string(made.status().message());
    Log(options_.python.empty() ? LogLevel::kInfo : LogLevel::kWarning, "no Triton candidates",
        {{"reason", no_triton_reason_}});
  }
}

void CudaCompilers::ProbePython() {
  if (options_.python.empty()) {
    no_python_reason_ = "no Python interpreter with PyTorch is configured (--python)";
    return;
  }
  auto python = ProbeTorch(options_.python);
  if (!python.ok()) {
    no_python_reason_ = std::string(python.status().message());
    Log(LogLevel::kInfo, "no PyTorch tasks on GPUs", {{"reason", no_python_reason_}});
    return;
  }
  if (python->cuda_version.empty() && options_.python_device == "cuda") {
    no_python_reason_ = "its PyTorch is made without CUDA";
  } else {
    MakeZygote(*python);
  }
  recorder_ = std::make_unique<LaunchRecorder>(*python, Sandbox(), options_.cache_directory);
  python_ =
      std::make_unique<PythonCompiler>(*std::move(python), Sandbox(), options_.cache_directory);
  Log(LogLevel::kInfo, "takes PyTorch tasks", {{"toolchain", python_->toolchain()}});
}

void CudaCompilers::MakeZygote(const PythonInterpreter& python) {
  PythonZygote::Options options;
  options.python = python;
  options.device = options_.python_device;
  options.library = absl::StrCat(options_.program_folder, "/", kPythonLibrary);
  options.environment = PythonEnvironment(toolkit_, python);
  // Compilers at run time need the system's tools, headers and libraries.
  options.read_only = {"/usr",
                       "/bin",
                       "/sbin",
                       "/lib",
                       "/lib64",
                       "/etc/alternatives",
                       "/etc/ld.so.cache",
                       toolkit_.home,
                       python.tools};
  zygote_ = std::make_shared<PythonZygote>(std::move(options));
}

void CudaCompilers::RequireDevicePython(TargetInfo& info) {
  if (zygote_ != nullptr || python_ == nullptr) return;
  python_.reset();
  recorder_.reset();
  std::erase(info.candidate_kinds, CandidateKind::kPython);
  info.missing_tools.push_back(absl::StrCat("no PyTorch tasks: ", no_python_reason_));
  Log(LogLevel::kInfo, "no PyTorch tasks on GPUs", {{"reason", no_python_reason_}});
}

absl::Status CudaCompilers::CheckKind(const Problem& problem, const Candidate& candidate) {
  const bool is_python = candidate.kind == CandidateKind::kPython;
  if (is_python != problem.task.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "kind: the problem takes ", is_python ? "no candidates" : "candidates", " of kind python"));
  }
  if (candidate.kind != CandidateKind::kHostNative && !is_python && !IsDeviceKind(candidate.kind)) {
    return absl::InvalidArgumentError(
        "the cuda target takes candidates of kinds device_cuda, device_triton, host_native and "
        "python");
  }
  return absl::OkStatus();
}

absl::StatusOr<CompileResult> CudaCompilers::Compile(const Problem& problem,
                                                     const Candidate& candidate,
                                                     const DeviceModel& model,
                                                     const CancelToken& cancel) {
  const bool hosted = candidate.kind == CandidateKind::kHostNative;
  const bool is_python = candidate.kind == CandidateKind::kPython;
  if (hosted && nvcc_ == nullptr) {
    return absl::UnimplementedError(
        absl::StrCat("cannot compile host-launched candidates: ", no_nvcc_reason_));
  }
  const auto target = problem.targets.find(kCudaTargetName);
  if (target == problem.targets.end()) {
    return absl::FailedPreconditionError(
        absl::StrCat("problem ", problem.name, " has no reference for target cuda"));
  }
  if (is_python) {
    if (python_ == nullptr) {
      return absl::UnimplementedError(absl::StrCat("no PyTorch tasks: ", no_python_reason_));
    }
    KC_ASSIGN_OR_RETURN(CompileResult checked,
                        cache_->GetOrCompile(python_->ArtifactId(candidate.source), cancel, [&] {
                          return python_->Compile(problem.task->format, model.architecture,
                                                  candidate.source, cancel);
                        }));
    // The source is the same for all.
    if (auto* const success = std::get_if<CompileSuccess>(&checked.result)) {
      success->artifact.architecture = model.architecture;
      if (model.record_launches) {
        KC_RETURN_IF_ERROR(AddRecorded(problem, candidate, model, cancel, *success));
      }
    }
    return checked;
  }
  if (hosted) {
    return nvcc_->Compile(candidate.source, candidate.flags, model.architecture, cancel);
  }
  if (candidate.kind == CandidateKind::kDeviceTriton) {
    return CompileTriton(problem, target->second, candidate, model, cancel);
  }
  const absl::Status plans = CheckPlans(problem, target->second, candidate.launches,
                                        candidate.workspace_bytes, candidate.tunables);
  if (!plans.ok()) return Refusal(std::string(plans.message()));
  KC_ASSIGN_OR_RETURN(CompileResult result,
                      nvrtc_->Compile(candidate.source, candidate.flags,
                                      LaunchShapesOf(candidate.launches, candidate.tunables),
                                      model.architecture, cancel));
  if (auto* success = std::get_if<CompileSuccess>(&result.result)) {
    KC_ASSIGN_OR_RETURN(const LaunchPlan plan,
                        PlanLaunches(problem, candidate.launches, candidate.workspace_bytes,
                                     candidate.tunables, target->second.bench_shapes.front()));
    if (auto wrong = CheckArguments(candidate.launches, plan, ReadSignatures(success->ptx))) {
      return Refusal(*std::move(wrong));
    }
    KC_RETURN_IF_ERROR(AddSimulations({.problem = problem,
                                       .target = target->second,
                                       .candidate = candidate,
                                       .program = {.architecture = model.architecture,
                                                   .source = candidate.source,
                                                   .flags = candidate.flags},
                                       .device = model.name},
                                      cancel, *success));
    success->ptx.clear();
  }
  return result;
}

absl::StatusOr<CompileResult> CudaCompilers::CompileTriton(const Problem& problem,
                                                           const ProblemTarget& target,
                                                           const Candidate& candidate,
                                                           const DeviceModel& model,
                                                           const CancelToken& cancel) {
  if (triton_ == nullptr) {
    return absl::UnimplementedError(
        absl::StrCat("cannot compile Triton candidates: ", no_triton_reason_));
  }
  KC_ASSIGN_OR_RETURN(CompileResult result,
                      triton_->Compile(problem, target, candidate, model.architecture, cancel));
  auto* const success = std::get_if<CompileSuccess>(&result.result);
  if (success == nullptr) return result;
  KC_ASSIGN_OR_RETURN(TritonArtifact artifact, DecodeTritonArtifact(success->artifact.content));
  Candidate launched = candidate;
  launched.launches = std::move(artifact.launches);
  const absl::Status plans =
      CheckPlans(problem, target, launched.launches, launched.workspace_bytes, launched.tunables);
  if (!plans.ok()) return Refusal(std::string(plans.message()));
  KC_ASSIGN_OR_RETURN(const LaunchPlan plan,
                      PlanLaunches(problem, launched.launches, launched.workspace_bytes,
                                   launched.tunables, target.bench_shapes.front()));
  if (auto wrong = CheckArguments(launched.launches, plan, ReadSignatures(success->ptx))) {
    return Refusal(*std::move(wrong));
  }
  KC_RETURN_IF_ERROR(AddSimulations(
      {.problem = problem,
       .target = target,
       .candidate = launched,
       .program = {.architecture = model.architecture, .ptx = std::exchange(success->ptx, "")},
       .device = model.name},
      cancel, *success));
  return result;
}

absl::Status CudaCompilers::AddSimulations(const Simulated& simulated, const CancelToken& cancel,
                                           CompileSuccess& success) {
  const auto& [problem, target, candidate, program, device] = simulated;
  KC_ASSIGN_OR_RETURN(const Cubin cubin, ReadCubin(success.artifact.content));
  std::vector<SimulationPlan> plans;
  for (const AxisValues& shape : target.bench_shapes) {
    KC_ASSIGN_OR_RETURN(SimulationPlan plan,
                        PlanSimulation(problem, candidate.launches, candidate.workspace_bytes,
                                       candidate.tunables, shape, cubin));
    plans.push_back(std::move(plan));
  }
  std::vector<SimulationPlan> checks;
  for (const AxisValues& shape : ShapesToCheck(problem, target)) {
    absl::StatusOr<SimulationPlan> plan = PlanSimulation(
        problem, candidate.launches, candidate.workspace_bytes, candidate.tunables, shape, cubin);
    if (plan.ok()) checks.push_back(*std::move(plan));
  }
  KC_ASSIGN_OR_RETURN(
      success.facts.simulations,
      nvrtc_->Simulate(program, std::move(plans), std::move(checks), device, cancel));
  return absl::OkStatus();
}

absl::StatusOr<CudaCompilers::Identity> CudaCompilers::Identify(
    const Candidate& candidate, const std::string& architecture) const {
  Identity made;
  if (candidate.kind == CandidateKind::kDeviceTriton) {
    if (triton_ == nullptr) {
      return absl::UnimplementedError(
          absl::StrCat("cannot tell which cubin belongs to the candidate: ", no_triton_reason_));
    }
    made.artifact_id = triton_->ArtifactId(candidate, architecture);
    made.toolchain = triton_->description();
  } else if (candidate.kind == CandidateKind::kPython) {
    if (python_ == nullptr) {
      return absl::UnimplementedError(absl::StrCat("no PyTorch tasks: ", no_python_reason_));
    }
    made.artifact_id = python_->ArtifactId(candidate.source);
    made.toolchain = python_->toolchain();
  } else if (candidate.kind != CandidateKind::kHostNative) {
    made.artifact_id = nvrtc_->ArtifactId(candidate.source, candidate.flags, architecture);
    made.toolchain = nvrtc_->toolchain().description;
  } else if (nvcc_ != nullptr) {
    made.artifact_id = nvcc_->ArtifactId(candidate.source, candidate.flags, architecture);
    made.toolchain = nvcc_->description();
  } else {
    return absl::UnimplementedError(
        absl::StrCat("cannot tell which object belongs to the candidate: ", no_nvcc_reason_));
  }
  return made;
}

}  // namespace kernelcast::worker
