#include "services/worker/cuda/language/tilelang/tilelang_language.h"

#include <algorithm>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/hash.h"
#include "common/base/status.h"
#include "services/worker/cuda/language/device_code.h"
#include "services/worker/cuda/language/tilelang/tilelang_plan.h"

namespace kernelcast::worker {

extern const char* const kTilelangProgram;

namespace {

// TileLang's headers use parts of namespace std that NVRTC lacks, and that nvcc has without them.
constexpr const char* kStandardIncludes = "#include <type_traits>\n#include <utility>\n";
// Address space. TileLang imports PyTorch, whose libraries for GPUs take several gigabytes of it.
constexpr int64_t kMaxMemoryBytes = int64_t{16} << 30;
constexpr int64_t kCompileLimitNs = 60'000'000'000;

absl::StatusOr<std::vector<HeaderFolder>> HeadersOf(const PythonInterpreter& python) {
  const auto package = std::ranges::find_if(
      python.packages, [](const std::string& path) { return path.ends_with("/tilelang"); });
  if (package == python.packages.end()) {
    return absl::UnavailableError("the folder of tilelang is not known");
  }
  const std::string cutlass = absl::StrCat(*package, "/3rdparty/cutlass/include");
  return std::vector<HeaderFolder>{
      {absl::StrCat(*package, "/src"), "tl_templates"}, {cutlass, "cute"}, {cutlass, "cutlass"}};
}

}  // namespace

absl::StatusOr<std::unique_ptr<Language>> TilelangLanguage::Open(const LanguageSetup& setup) {
  CompileServerOptions options;
  options.compiler = "TileLang";
  options.program = kTilelangProgram;
  options.sandbox = setup.sandbox;
  options.work_directory = setup.work_directory;
  options.max_memory_bytes = kMaxMemoryBytes;
  KC_ASSIGN_OR_RETURN(auto server,
                      CompileServer::Start(std::move(options), setup.python, CancelToken()));
  CudaCompilerOptions nvrtc = setup.nvrtc_options;
  KC_ASSIGN_OR_RETURN(nvrtc.headers, HeadersOf(server->python()));
  nvrtc.flags = {"-std=c++20", "--device-as-default-execution-space", "--disable-warnings"};
  nvrtc.timeout_ns = kCompileLimitNs;
  KC_ASSIGN_OR_RETURN(auto compiler, CudaCompiler::Make(std::move(nvrtc), setup.cache));
  return std::make_unique<TilelangLanguage>(std::move(server), std::move(compiler), setup.cache);
}

TilelangLanguage::TilelangLanguage(std::unique_ptr<CompileServer> server,
                                   std::unique_ptr<CudaCompiler> nvrtc, CompileCache& cache)
    : server_(std::move(server)), nvrtc_(std::move(nvrtc)), cache_(cache) {
  const PythonInterpreter& python = server_->python();
  toolchain_ = absl::StrCat("TileLang ", python.package_version, "; Python ", python.python_version,
                            "; ", nvrtc_->toolchain().description);
}

std::string TilelangLanguage::ArtifactId(const Candidate& candidate,
                                         const std::string& architecture) const {
  ContentHasher hasher;
  // The id of a candidate covers the problem, which decides the variants.
  hasher.Add("tilelang artifact 1").Add(toolchain_).Add(architecture).Add(CandidateId(candidate));
  return absl::StrCat("a_", hasher.Hex128());
}

absl::StatusOr<CompileResult> TilelangLanguage::Compile(const CompileJob& job,
                                                        const CancelToken& cancel) {
  KC_RETURN_IF_ERROR(cancel.Check());
  if (!job.candidate.flags.empty()) return Refusal("flags: device_tilelang candidates have none");
  KC_ASSIGN_OR_RETURN(CompileResult result,
                      cache_.GetOrCompile(ArtifactId(job.candidate, job.gpu.architecture), cancel,
                                          [&] { return CompileFresh(job, cancel); }));
  KC_RETURN_IF_ERROR(AddDecidedLaunchFacts(job, result));
  KC_RETURN_IF_ERROR(CheckDecidedLaunches(job, *nvrtc_, cancel, result));
  return result;
}

absl::StatusOr<CompileResult> TilelangLanguage::CompileFresh(const CompileJob& job,
                                                             const CancelToken& cancel) {
  const int64_t start_ns = Clock::Real().MonotonicNs();
  const std::string& architecture = job.gpu.architecture;
  const std::vector<TilelangVariant> variants = PlanTilelang(job.problem, job.target);
  KC_ASSIGN_OR_RETURN(CompileServer::Outcome outcome,
                      server_->Compile(EncodeTilelangRequest(job.problem, job.target, variants,
                                                             ArchitectureNumber(architecture),
                                                             job.candidate.source),
                                       cancel));
  if (auto* const error = std::get_if<CompileError>(&outcome)) {
    return Refusal(std::move(error->log), error->stage);
  }
  auto lowered = DecodeTilelangReply(std::get<std::string>(outcome), variants);
  if (!lowered.ok()) {
    return Refusal(std::string(lowered.status().message()), CompileStage::kCompiler);
  }
  std::string source = absl::StrCat(kStandardIncludes, lowered->source);
  std::vector<LaunchShape> kernels;
  for (const Launch& launch : lowered->launches) kernels.push_back({launch.kernel, {}, {}});
  KC_ASSIGN_OR_RETURN(CompileResult result,
                      nvrtc_->Compile(source, {}, kernels, architecture, cancel));
  if (auto* const success = std::get_if<CompileSuccess>(&result.result)) {
    Artifact& artifact = success->artifact;
    artifact.artifact_id = ArtifactId(job.candidate, architecture);
    artifact.toolchain = toolchain_;
    artifact.content = EncodeDeviceArtifact(
        {std::move(artifact.content), std::move(lowered->launches), std::move(source)});
  }
  result.cached = false;
  result.compile_ns = Clock::Real().MonotonicNs() - start_ns;
  return result;
}

absl::StatusOr<CudaProgram> TilelangLanguage::Load(const Candidate& candidate,
                                                   const Artifact& artifact,
                                                   const PythonTaskPrograms*) const {
  return LoadDeviceArtifact(candidate, artifact);
}

}  // namespace kernelcast::worker
