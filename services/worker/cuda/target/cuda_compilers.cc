#include "services/worker/cuda/target/cuda_compilers.h"

#include <algorithm>
#include <cstdlib>
#include <future>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "services/worker/artifacts/artifact_cache.h"
#include "services/worker/cuda/language/pytorch/pytorch_language.h"

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

}  // namespace

absl::StatusOr<std::unique_ptr<CudaCompilers>> CudaCompilers::Open(
    const CudaTargetOptions& options) {
  KC_ASSIGN_OR_RETURN(
      CudaToolkit toolkit,
      FindCudaToolkit(CudaHomes(options.cuda_home, options.program_folder, options.python)));
  std::unique_ptr<CudaCompilers> made(new CudaCompilers(options, std::move(toolkit)));
  KC_ASSIGN_OR_RETURN(auto artifacts,
                      ArtifactCache::Open(options.cache_directory, options.max_cache_bytes));
  made->cache_ = std::make_unique<CompileCache>(std::move(artifacts));
  KC_ASSIGN_OR_RETURN(made->nvrtc_, CudaCompiler::Make(made->NvrtcOptions(), *made->cache_));
  const LanguageSetup setup = made->Setup();
  {
    std::vector<std::jthread> opening;
    for (const LanguageRow& language : AllLanguages()) made->languages_.push_back({language});
    for (Row& row : made->languages_) {
      opening.emplace_back([&setup, &row] {
        auto language = row.open(setup);
        if (language.ok()) row.language = *std::move(language);
        row.missing_reason = std::string(language.status().message());
      });
    }
  }
  for (const Row& row : made->languages_) {
    const std::string candidates(row.candidates);
    if (row.language != nullptr) {
      Log(LogLevel::kInfo, absl::StrCat("takes ", candidates),
          {{"toolchain", row.language->toolchain()}});
      continue;
    }
    const bool wanted = KindInfoOf(row.kind).is_python && !options.python.empty();
    Log(wanted ? LogLevel::kWarning : LogLevel::kInfo, absl::StrCat("no ", candidates),
        {{"reason", row.missing_reason}});
  }
  made->MakeZygote(setup.torch.get());
  return made;
}

void CudaCompilers::Fill(TargetInfo& info) const {
  info.toolchain = nvrtc_->toolchain().description;
  info.missing_protections = nvrtc_->missing_protections();
  for (const Row& row : languages_) {
    if (row.language != nullptr) {
      info.candidate_kinds.push_back(row.kind);
    } else {
      info.missing_tools.push_back(
          absl::StrCat("no ", std::string(row.candidates), ": ", row.missing_reason));
    }
  }
}

CudaCompilerOptions CudaCompilers::NvrtcOptions() const {
  CudaCompilerOptions nvrtc;
  nvrtc.process.program = absl::StrCat(options_.program_folder, "/kernelcast-cuda-compiler");
  nvrtc.process.toolkit = toolkit_;
  nvrtc.process.uid = options_.untrusted_uid;
  nvrtc.max_processes = options_.compile_processes;
  return nvrtc;
}

LanguageSetup CudaCompilers::Setup() {
  CompilerSandbox sandbox;
  sandbox.program = CompilerSandboxBeside(absl::StrCat(options_.program_folder, "/", kRunner));
  sandbox.uid = options_.untrusted_uid;
  const auto probe = [python = options_.python]() -> absl::StatusOr<PythonInterpreter> {
    if (!python.empty()) return ProbeTorch(python);
    return absl::UnavailableError("no Python interpreter with PyTorch is configured (--python)");
  };
  return {.python = options_.python,
          .host_compiler = options_.host_compiler,
          .include_directories = options_.include_directories,
          .work_directory = options_.cache_directory,
          .toolkit = toolkit_,
          .sandbox = sandbox,
          .cache = *cache_,
          .nvrtc = *nvrtc_,
          .nvrtc_options = NvrtcOptions(),
          .torch = std::async(std::launch::async, probe).share(),
          .find = [this](CandidateKind kind) { return Find(kind); }};
}

void CudaCompilers::MakeZygote(const absl::StatusOr<PythonInterpreter>& python) {
  if (!python.ok()) {
    no_python_reason_ = std::string(python.status().message());
    return;
  }
  if (python->cuda_version.empty() && options_.python_device == "cuda") {
    no_python_reason_ = "its PyTorch is made without CUDA";
    return;
  }
  PythonZygote::Options options;
  options.python = *python;
  options.program = kPythonCudaRunner;
  options.arguments = {absl::StrCat(options_.program_folder, "/", kPythonLibrary),
                       options_.python_device};
  options.environment = PythonEnvironment(toolkit_, *python);
  // Compilers at run time need the system's tools, headers and libraries.
  options.read_only = {"/usr",
                       "/bin",
                       "/sbin",
                       "/lib",
                       "/lib64",
                       "/etc/alternatives",
                       "/etc/ld.so.cache",
                       toolkit_.home,
                       python->tools};
  zygote_ = std::make_shared<PythonZygote>(std::move(options));
}

void CudaCompilers::RequireDevicePython(TargetInfo& info) {
  if (zygote_ != nullptr) return;
  for (Row& row : languages_) {
    if (!KindInfoOf(row.kind).takes_tasks || row.language == nullptr) continue;
    row.language.reset();
    row.missing_reason = no_python_reason_;
    std::erase(info.candidate_kinds, row.kind);
    info.missing_tools.push_back(
        absl::StrCat("no ", std::string(row.candidates), ": ", row.missing_reason));
    Log(LogLevel::kInfo, absl::StrCat("no ", std::string(row.candidates)),
        {{"reason", row.missing_reason}});
  }
}

const CudaCompilers::Row* CudaCompilers::FindRow(CandidateKind kind) const {
  const auto row = std::ranges::find(languages_, kind, &Row::kind);
  return row == languages_.end() ? nullptr : &*row;
}

absl::Status CudaCompilers::CheckKind(const Problem& problem, const Candidate& candidate) const {
  const Row* const row = FindRow(candidate.kind);
  const bool takes_tasks = row != nullptr && KindInfoOf(row->kind).takes_tasks;
  if (takes_tasks && !problem.task) {
    return absl::InvalidArgumentError("kind: the problem takes no candidates of kind python");
  }
  if (problem.task && !takes_tasks && !(row != nullptr && row->is_device_code)) {
    return absl::InvalidArgumentError(
        "kind: a task takes candidates of kind python, and device code with its launches");
  }
  if (row == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("the cuda target takes candidates of kinds ",
                     absl::StrJoin(languages_, ", ", [](std::string* out, const Row& each) {
                       out->append(KindName(each.kind));
                     })));
  }
  return absl::OkStatus();
}

absl::StatusOr<Language*> CudaCompilers::Find(CandidateKind kind) const {
  const Row* const row = FindRow(kind);
  if (row == nullptr) {
    return absl::InvalidArgumentError("kind: is not one that the cuda target takes");
  }
  if (row->language == nullptr) {
    return absl::UnimplementedError(
        absl::StrCat("no ", std::string(row->candidates), ": ", row->missing_reason));
  }
  return row->language.get();
}

void CudaCompilers::StartRecorder(const CancelToken& cancel) const {
  const auto pytorch = Find(CandidateKind::kPython);
  if (!pytorch.ok()) return;
  // The first recording tries again and reports the error.
  (void)static_cast<PytorchLanguage*>(*pytorch)->StartRecorder(cancel);
}

absl::StatusOr<PythonTaskPrograms> CudaCompilers::DescribeTask(const Problem& problem,
                                                               const CompileGpu& gpu,
                                                               const CancelToken& cancel) const {
  KC_ASSIGN_OR_RETURN(Language* const pytorch, Find(CandidateKind::kPython));
  return static_cast<PytorchLanguage*>(pytorch)->Describe(problem, gpu, cancel);
}

absl::StatusOr<CompileResult> CudaCompilers::Compile(const Problem& problem,
                                                     const Candidate& candidate,
                                                     const CompileGpu& gpu,
                                                     const CancelToken& cancel) {
  KC_ASSIGN_OR_RETURN(Language* const language, Find(candidate.kind));
  const auto target = problem.targets.find(kCudaTargetName);
  if (target == problem.targets.end()) {
    return absl::FailedPreconditionError(
        absl::StrCat("problem ", problem.name, " has no reference for target cuda"));
  }
  return language->Compile({problem, target->second, candidate, gpu}, cancel);
}

}  // namespace kernelcast::worker
