#include "services/worker/cuda/nvcc/nvcc_compiler.h"

#include <filesystem>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/base/utf8.h"
#include "services/worker/core/artifact_id.h"
#include "services/worker/core/source_scan.h"
#include "services/worker/cuda/compiler/admission.h"
#include "services/worker/cuda/compiler/cubin.h"
#include "services/worker/cuda/compiler/ptx_facts.h"
#include "services/worker/native/assembly_text.h"
#include "services/worker/native/compiler_output.h"
#include "services/worker/native/shared_object.h"
#include "services/worker/native/step_verdict.h"

namespace kernelcast::worker {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kAllowedHeaders =
    "headers of the CUDA toolkit, of the C++ compiler and kernelcast/candidate.h";
constexpr const char* kSourceName = "kernel.cu";
// Files that the compilers leave with --keep and -save-temps.
constexpr const char* kDependencyName = "kernel.d";
constexpr const char* kPtxName = "kernel.ptx";
constexpr const char* kCubinName = "kernel.cubin";
constexpr const char* kAssemblyName = "kernel.s";
constexpr const char* kHostObjectName = "kernel.o";
constexpr const char* kObjectName = "kernel.so";
constexpr const char* kBaseFlags[] = {"-O3", "-Xptxas=-v", "-Xcompiler=-fPIC",
                                      "-Xcompiler=-fdiagnostics-color=never"};
// Needs what candidates need: headers, all compilers, the assembler and the linker.
constexpr const char* kControlSource =
    "#include <cuda_runtime.h>\n#include <kernelcast/candidate.h>\n"
    "__global__ void control(float* x) { x[threadIdx.x] = 1; }\n"
    "void Control(float* x) { control<<<1, 32>>>(x); }\n";
constexpr const char* kHostControlName = "control.cc";
constexpr const char* kHostControlSource =
    "extern \"C\" int cudaDeviceSynchronize();\nint Control() { return cudaDeviceSynchronize(); "
    "}\n";
constexpr int64_t kVersionLimitNs = 10'000'000'000;

// Returns "Cuda compilation tools, release 13.0, V13.0.88" from the output of nvcc --version.
std::string VersionLine(const std::string& text) {
  for (const auto line : absl::StrSplit(text, '\n')) {
    if (line.find("release") != absl::string_view::npos) {
      return std::string(line);
    }
  }
  return "";
}

// "sm_90a" -> "compute_90a".
std::string VirtualArchitecture(const std::string& architecture) {
  return absl::StrCat("compute_", architecture.substr(architecture.find('_') + 1));
}

}  // namespace

absl::StatusOr<std::unique_ptr<NvccCompiler>> NvccCompiler::Make(NvccOptions options,
                                                                 CompileCache& cache) {
  const CudaToolkit& toolkit = options.toolkit;
  if (toolkit.nvcc.empty()) {
    return absl::UnavailableError(absl::StrCat("there is no nvcc in ", toolkit.home));
  }
  const auto host = Toolchain::Probe(options.host_compiler);
  if (!host.ok()) {
    return absl::UnavailableError(host.status().message());
  }
  std::unique_ptr<NvccCompiler> compiler(new NvccCompiler(std::move(options), *host, cache));
  const fs::path home(compiler->options_.toolkit.home);
  std::error_code ignored;
  for (const fs::path& folder : {home / "lib64", home / "lib", home / "targets/x86_64-linux/lib",
                                 home / "lib/x86_64-linux-gnu"}) {
    if (fs::exists(folder / "libcudart_static.a", ignored)) {
      compiler->runtime_folder_ = folder.string();
      break;
    }
  }
  if (compiler->runtime_folder_.empty()) {
    return absl::UnavailableError(
        absl::StrCat("there is no libcudart_static.a in ", home.string()));
  }
  compiler->AllowToolchain();
  KC_ASSIGN_OR_RETURN(const WorkFolder trial, WorkFolder::Make(compiler->options_.work_directory,
                                                               compiler->options_.sandbox.uid));
  KC_ASSIGN_OR_RETURN(const CompilerStep version,
                      compiler->Run({compiler->options_.toolkit.nvcc, "--version"}, trial.path(),
                                    {.timeout_ns = kVersionLimitNs}, CancelToken()));
  const std::string line = VersionLine(version.log);
  if (!version.ok || line.empty()) {
    return absl::UnavailableError(absl::StrCat(compiler->options_.toolkit.nvcc,
                                               " does not work: ", version.log.substr(0, 500)));
  }
  compiler->description_ =
      absl::StrCat(line, "; ", host->description.substr(0, host->description.find(';')), ";");
  for (const char* flag : kBaseFlags) {
    absl::StrAppend(&compiler->description_, " ", flag);
  }
  if (!compiler->options_.toolkit.cublas_library.empty()) {
    absl::StrAppend(&compiler->description_, "; ",
                    fs::path(compiler->options_.toolkit.cublas_library).filename().string());
  }
  compiler->header_folders_ = host->include_directories;
  const fs::path include(compiler->options_.toolkit.include_directory);
  for (const fs::path& folder :
       {include, home / "include", home / "targets", fs::weakly_canonical(include, ignored),
        fs::weakly_canonical(home / "targets", ignored)}) {
    compiler->header_folders_.push_back(folder.lexically_normal().string());
  }
  for (const std::string& folder : compiler->options_.include_directories) {
    compiler->header_folders_.push_back(folder);
  }
  return compiler;
}

void NvccCompiler::AllowToolchain() {
  const fs::path home(options_.toolkit.home);
  std::vector<std::string>& paths = options_.sandbox.read_only;
  paths = host_.read_only;
  for (const fs::path& path :
       {home / "bin", home / "nvvm", home / "include", home / "targets",
        fs::path(options_.toolkit.include_directory), fs::path(options_.toolkit.nvcc),
        fs::path(runtime_folder_), fs::path("/bin/sh")}) {
    paths.push_back(path.string());
  }
  if (!options_.toolkit.cublas_library.empty()) {
    paths.push_back(fs::path(options_.toolkit.cublas_library).parent_path().string());
  }
  paths.insert(paths.end(), options_.include_directories.begin(),
               options_.include_directories.end());
  for (std::string& path : paths) path = fs::absolute(path).lexically_normal().string();
}

absl::StatusOr<CompilerStep> NvccCompiler::Run(const std::vector<std::string>& arguments,
                                               const std::string& directory,
                                               const CompilerLimits& limits,
                                               const CancelToken& cancel) const {
  return RunCompilerStep(options_.sandbox, arguments, CompilerEnvironment(directory), directory,
                         limits, cancel);
}

absl::StatusOr<CompilerStep> NvccCompiler::RunControl(const std::vector<std::string>& arguments,
                                                      const CancelToken& cancel) const {
  KC_ASSIGN_OR_RETURN(const WorkFolder folder,
                      WorkFolder::Make(options_.work_directory, options_.sandbox.uid));
  KC_RETURN_IF_ERROR(folder.Write(kSourceName, kControlSource));
  return Run(arguments, folder.path(), options_.limits, cancel);
}

// The runtime is linked statically, so the measuring node may have another version of it.
std::vector<std::string> NvccCompiler::LinkCommand(const char* input) const {
  std::vector<std::string> link = LinkArguments({input, "-o", kObjectName});
  link.insert(link.begin(), host_.compiler);
  if (const CudaToolkit& toolkit = options_.toolkit; !toolkit.cublas_library.empty()) {
    link.push_back(toolkit.cublas_library);
    link.push_back(toolkit.cublaslt_library);
    link.push_back(
        absl::StrCat("-Wl,-rpath-link,", fs::path(toolkit.cublas_library).parent_path().string()));
  }
  link.insert(link.end(), {absl::StrCat("-L", runtime_folder_), "-lcudart_static", "-lm", "-ldl",
                           "-lrt", "-lpthread"});
  return link;
}

absl::StatusOr<CompilerStep> NvccCompiler::RunLinkControl(const CancelToken& cancel) const {
  KC_ASSIGN_OR_RETURN(const WorkFolder folder,
                      WorkFolder::Make(options_.work_directory, options_.sandbox.uid));
  KC_RETURN_IF_ERROR(folder.Write(kHostControlName, kHostControlSource));
  std::vector<std::string> link = LinkCommand(kHostControlName);
  link.insert(link.begin() + 1, "-fPIC");
  return Run(link, folder.path(), options_.limits, cancel);
}

std::string NvccCompiler::ArtifactId(const std::string& source,
                                     const std::vector<std::string>& flags,
                                     const std::string& architecture) const {
  return ArtifactIdOf("host cuda artifact 2", description_, architecture, source, flags);
}

absl::StatusOr<CompileResult> NvccCompiler::Compile(const std::string& source,
                                                    const std::vector<std::string>& flags,
                                                    const std::string& architecture,
                                                    const CancelToken& cancel) {
  KC_RETURN_IF_ERROR(cancel.Check());
  if (auto problem = CheckCudaFlags(flags)) {
    return RefusedCompile(CompileStage::kAdmission, *problem);
  }
  if (auto problem = CheckIncludeDirectives(source, kAllowedHeaders)) {
    return RefusedCompile(CompileStage::kAdmission, *problem);
  }
  if (auto problem = CheckNoDirective(source, kForbiddenDirectives)) {
    return RefusedCompile(CompileStage::kAdmission, *problem);
  }
  return cache_.GetOrCompile(ArtifactId(source, flags, architecture), cancel,
                             [&] { return CompileFresh(source, flags, architecture, cancel); });
}

absl::StatusOr<CompileResult> NvccCompiler::CompileFresh(const std::string& source,
                                                         const std::vector<std::string>& flags,
                                                         const std::string& architecture,
                                                         const CancelToken& cancel) {
  const int64_t start_ns = Clock::Real().MonotonicNs();
  KC_ASSIGN_OR_RETURN(const WorkFolder folder,
                      WorkFolder::Make(options_.work_directory, options_.sandbox.uid));
  KC_RETURN_IF_ERROR(folder.Write(kSourceName, source));
  KC_ASSIGN_OR_RETURN(CompileResult result, CompileIn(folder, flags, architecture, cancel));
  if (auto* success = std::get_if<CompileSuccess>(&result.result)) {
    success->artifact.artifact_id = ArtifactId(source, flags, architecture);
  }
  result.compile_ns = Clock::Real().MonotonicNs() - start_ns;
  return result;
}

absl::StatusOr<CompileResult> NvccCompiler::CompileIn(const WorkFolder& folder,
                                                      const std::vector<std::string>& flags,
                                                      const std::string& architecture,
                                                      const CancelToken& cancel) {
  std::vector<std::string> arguments = {
      options_.toolkit.nvcc,
      "-c",
      "--keep",
      "-Xcompiler=-save-temps",
      "-Xcompiler=-fno-lto",
      "-MD",
      "-MF",
      kDependencyName,
      "-ccbin",
      host_.compiler,
      absl::StrCat("-gencode=arch=", VirtualArchitecture(architecture), ",code=", architecture)};
  arguments.insert(arguments.end(), std::begin(kBaseFlags), std::end(kBaseFlags));
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  for (const std::string& include : options_.include_directories) {
    arguments.push_back(absl::StrCat("-I", include));
  }
  arguments.insert(arguments.end(), {"-o", kHostObjectName, kSourceName});
  KC_ASSIGN_OR_RETURN(const CompilerStep compiled,
                      RunWithVerdict(
                          folder.path(), Evidence::kDiagnostic,
                          [&] { return Run(arguments, folder.path(), options_.limits, cancel); },
                          [&] { return RunControl(arguments, cancel); }));
  // The output of a stopped compiler is incomplete and says nothing.
  if (compiled.limit) return RefusedCompile(CompileStage::kLimit, compiled.LastLine());
  // Must precede any use of the log, which may quote files that the source included.
  const std::string dependencies = folder.Read(kDependencyName).value_or("");
  if (auto problem = CheckDependencies(dependencies, kSourceName, header_folders_)) {
    return RefusedCompile(CompileStage::kAdmission, *problem);
  }
  const auto assembly = CanonicalAssembly(folder.Read(kAssemblyName).value_or(""));
  if (!assembly.ok()) {
    return RefusedCompile(CompileStage::kAdmission, std::string(assembly.status().message()));
  }
  const std::optional<std::string> ptx = folder.Read(kPtxName);
  if (auto problem = CheckPtx(ptx.value_or(""))) {
    return RefusedCompile(CompileStage::kAdmission, *problem);
  }
  const std::string log = WithoutPtxasInfo(compiled.log);
  const auto truncated = [&log](int64_t max_bytes) {
    return std::string(TruncateUtf8(log, static_cast<size_t>(max_bytes)));
  };
  if (!compiled.ok) {
    return RefusedCompile(CompileStage::kCompiler, truncated(options_.limits.max_log_bytes));
  }
  const std::optional<std::string> device = folder.Read(kCubinName);
  if (!ptx || !device) {
    return absl::UnavailableError(absl::StrCat("nvcc left no ", ptx ? kCubinName : kPtxName));
  }
  const auto cubin = ReadCubin(*device);
  if (!cubin.ok()) {
    return absl::UnavailableError(absl::StrCat("nvcc: ", cubin.status().message()));
  }

  const std::optional<std::string> host_object = folder.Read(kHostObjectName);
  if (!host_object) return absl::UnavailableError(absl::StrCat("nvcc left no ", kHostObjectName));
  const auto relocatable = ReadRelocatable(*host_object);
  if (!relocatable.ok()) {
    return RefusedCompile(CompileStage::kAdmission, std::string(relocatable.status().message()));
  }
  KC_ASSIGN_OR_RETURN(
      const CompilerStep linked,
      RunWithVerdict(
          folder.path(), Evidence::kExitCode,
          [&] { return Run(LinkCommand(kHostObjectName), folder.path(), options_.limits, cancel); },
          [&] { return RunLinkControl(cancel); }));
  if (!linked.ok) {
    return RefusedCompile(linked.limit ? CompileStage::kLimit : CompileStage::kLinker, linked.log);
  }
  const std::optional<std::string> content = folder.Read(kObjectName);
  if (!content) {
    return absl::UnavailableError(absl::StrCat("the linker left no ", kObjectName));
  }
  if (const auto object = PrepareObject(*content); !object.ok()) {
    return RefusedCompile(CompileStage::kAdmission, std::string(object.status().message()));
  }
  if (content->find(*device) == std::string::npos) {
    return RefusedCompile(CompileStage::kAdmission,
                          "the object does not hold the compiled device code");
  }

  CompileSuccess success;
  success.facts = ExtractPtxFacts(*ptx, *cubin, ReadPtxasInfo(compiled.log));
  success.artifact.format = ArtifactFormat::kSharedObject;
  success.artifact.architecture = architecture;
  success.artifact.toolchain = description_;
  success.artifact.content = *content;
  success.log = truncated(options_.max_warning_bytes);
  CompileResult result;
  result.result = std::move(success);
  return result;
}

}  // namespace kernelcast::worker
