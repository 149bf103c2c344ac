#include "services/worker/cuda/compiler/cuda_compiler.h"

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/base/utf8.h"
#include "services/worker/core/artifact_id.h"
#include "services/worker/core/source_scan.h"
#include "services/worker/cuda/compiler/admission.h"
#include "services/worker/cuda/compiler/cubin.h"
#include "services/worker/cuda/compiler/kernel_parameters.h"
#include "services/worker/cuda/compiler/standard_headers.h"

namespace kernelcast::worker {
namespace {

constexpr std::string_view kAllowedHeaders = "headers of the CUDA toolkit";
// Fixed flags that candidates cannot change. They are part of the toolchain's description.
constexpr const char* kBaseFlags[] = {"-Xptxas=-v", "--no-source-include", "--no-cache",
                                      "--modify-stack-limit=false"};
constexpr std::chrono::milliseconds kLook(5);
constexpr int kAttempts = 2;
// Instructions (per warp) that an oracle or a reference may execute for all cases of a problem.
constexpr uint64_t kTrustedSteps = 3'000'000;
constexpr size_t kKeptProblems = 16;

// Adds the findings of the checks to the launches of the first simulation. Each source line is
// reported once per kind of fault, at the first shape that shows it.
void AddFindings(const compiler_wire::SimulateReply& reply, size_t first_check,
                 const std::vector<SimulationPlan>& checks, ShapeSimulation& simulation) {
  simulation.findings_schema = std::string(kCudaFindingsSchemaId);
  for (size_t k = 0; k < simulation.launches.size(); ++k) {
    LaunchSimulation& launch = simulation.launches[k];
    bool checked = false;
    for (size_t check = first_check; check < reply.shapes.size(); ++check) {
      if (k >= reply.shapes[check].size()) continue;
      const compiler_wire::SimulateReply::Launch& from = reply.shapes[check][k];
      checked = checked || from.not_checked.empty();
      launch.not_checked = from.not_checked;
      for (const virtual_gpu::LaunchFinding& finding : from.findings) {
        const auto kind = static_cast<FindingKind>(finding.fault);
        const bool known =
            std::any_of(launch.findings.begin(), launch.findings.end(), [&](const Finding& other) {
              return other.kind == kind && other.ptx_line == finding.line;
            });
        if (known || static_cast<size_t>(finding.fault) >= kFindingKinds ||
            launch.findings.size() >= kMaxFindings) {
          continue;
        }
        std::string detail =
            absl::StrCat("at ", checks[check - first_check].shape, ": ", finding.detail);
        detail.resize(std::min(detail.size(), kMaxFindingDetail));
        launch.findings.push_back({kind, finding.line, finding.source_line, std::move(detail),
                                   std::max<int64_t>(finding.count, 1)});
      }
    }
    if (checked) launch.not_checked.clear();
  }
}

// The buffers of the outputs.
std::vector<uint64_t> OutputsOf(const SimulatedCase& at) {
  std::vector<uint64_t> outputs;
  if (at.not_compared.empty()) {
    for (size_t k = 0; k < at.outputs.size(); ++k) outputs.push_back(at.inputs.size() + k);
  }
  return outputs;
}

// Why the outputs of the launches at a shape are not known.
std::string WhyInexact(const std::vector<compiler_wire::SimulateReply::Launch>& launches) {
  for (const compiler_wire::SimulateReply::Launch& launch : launches) {
    if (!launch.inexact.empty()) return absl::StrCat(launch.kernel, ": ", launch.inexact);
  }
  return "not known";
}

// Compares the outputs of the checks with the expected ones. A mismatch is a finding of the last
// launch that has the output as an argument.
void AddMismatches(const compiler_wire::SimulateRequest& request,
                   const compiler_wire::SimulateReply& reply, size_t first_check,
                   const std::vector<SimulationPlan>& checks, ShapeSimulation& simulation) {
  if (simulation.launches.empty()) return;
  bool compared = false;
  std::string why_not;
  std::set<std::pair<size_t, FindingKind>> known;
  for (size_t c = 0; c < checks.size(); ++c) {
    const SimulatedCase* const at = checks[c].compared;
    const std::vector<std::string>& outputs = reply.contents[first_check + c];
    std::string why;
    if (at == nullptr) {
      why = "no expected outputs";
    } else if (!at->not_compared.empty()) {
      why = at->not_compared;
    } else if (outputs.size() != at->outputs.size()) {
      why = WhyInexact(reply.shapes[first_check + c]);
    }
    if (!why.empty()) {
      if (why_not.empty()) why_not = std::move(why);
      continue;
    }
    SimulatedComparison comparison = CompareSimulated(*at, outputs);
    // A single close call leaves it open whether the program is right.
    if (!comparison.unknown.empty()) {
      simulation.not_compared = comparison.unknown;
      continue;
    }
    compared = true;
    const std::vector<virtual_gpu::LaunchSpec>& launches = request.shapes[first_check + c].launches;
    for (SimulatedMismatch& mismatch : comparison.mismatches) {
      if (!known.emplace(mismatch.output, mismatch.finding.kind).second) continue;
      const auto buffer = static_cast<int>(at->inputs.size() + mismatch.output);
      size_t last = simulation.launches.size() - 1;
      for (size_t k = 0; k < std::min(launches.size(), simulation.launches.size()); ++k) {
        const bool has = std::any_of(launches[k].arguments.begin(), launches[k].arguments.end(),
                                     [&](const virtual_gpu::LaunchArgument& argument) {
                                       return argument.is_buffer && argument.buffer == buffer;
                                     });
        if (has) last = k;
      }
      mismatch.finding.detail.resize(std::min(mismatch.finding.detail.size(), kMaxFindingDetail));
      std::vector<Finding>& findings = simulation.launches[last].findings;
      if (findings.size() >= kMaxFindings) findings.pop_back();
      findings.push_back(std::move(mismatch.finding));
    }
  }
  if (!known.empty()) {
    simulation.not_compared.clear();
  } else if (!compared && simulation.not_compared.empty()) {
    simulation.not_compared = why_not.substr(0, kMaxFindingDetail);
  }
}

std::string QuotedNames(const std::vector<CubinKernel>& kernels) {
  std::string names;
  for (const CubinKernel& kernel : kernels) {
    absl::StrAppend(&names, names.empty() ? "" : ", ", kernel.name);
  }
  return names;
}

// NVIDIA's Python packages by the start of the names of their headers.
struct HeaderPackage {
  std::string_view start;
  std::string_view name;
  std::string_view name_of_cuda_12;
  bool has_release;  // its version is that of CUDA
};
constexpr HeaderPackage kPackages[] = {
    {"cub/", "nvidia-cuda-cccl", "nvidia-cuda-cccl-cu12", true},
    {"cuda/", "nvidia-cuda-cccl", "nvidia-cuda-cccl-cu12", true},
    {"nv/", "nvidia-cuda-cccl", "nvidia-cuda-cccl-cu12", true},
    {"thrust/", "nvidia-cuda-cccl", "nvidia-cuda-cccl-cu12", true},
    {"crt/", "nvidia-cuda-crt", "nvidia-cuda-nvcc-cu12", true},
    {"curand", "nvidia-curand", "nvidia-curand-cu12", false},
    {"cooperative_groups", "nvidia-cuda-runtime", "nvidia-cuda-runtime-cu12", true},
};

// "pip install 'nvidia-cuda-cccl==13.0.*'" for version 13.0.88 of NVRTC.
std::string InstallCommand(const HeaderPackage& package, const std::string& nvrtc_version) {
  const std::string name(nvrtc_version.starts_with("12.") ? package.name_of_cuda_12 : package.name);
  if (!package.has_release) return absl::StrCat("pip install ", name);
  const size_t minor = nvrtc_version.find('.') + 1;
  const std::string release = nvrtc_version.substr(0, nvrtc_version.find('.', minor));
  return absl::StrCat("pip install '", name, "==", release, ".*'");
}

std::optional<std::string> CheckHeaders(const HeaderArchive& headers,
                                        std::span<const IncludedFile> included,
                                        const std::string& nvrtc_version) {
  for (const IncludedFile& file : included) {
    const std::string name = file.name.substr(0, 200);
    if (!headers.Has(file.name)) {
      for (const HeaderPackage& package : kPackages) {
        if (name.starts_with(package.start)) {
          return absl::StrCat("#include of '", name, "': this CUDA toolkit has no such header; ",
                              "headers of this kind come with NVIDIA's package ",
                              std::string(package.name), ": ",
                              InstallCommand(package, nvrtc_version));
        }
      }
      return absl::StrCat("#include of '", name, "': there is no such header; only ",
                          std::string(kAllowedHeaders), " can be included");
    }
  }
  return std::nullopt;
}

// A header of the standard library may include one of CCCL, which a toolkit may lack.
std::optional<std::string> CheckStandardHeaders(const HeaderArchive& headers,
                                                std::span<const IncludedFile> included,
                                                const std::string& nvrtc_version) {
  for (const StandardHeader& header : StandardHeaders()) {
    if (std::any_of(included.begin(), included.end(),
                    [&](const IncludedFile& file) { return file.name == header.name; })) {
      const auto next = IncludedFiles(header.text);
      auto problem = CheckHeaders(headers, next, nvrtc_version);
      if (!problem) {
        problem = CheckStandardHeaders(headers, next, nvrtc_version);
      }
      if (problem) {
        return absl::StrCat("<", header.name, ">: ", *problem);
      }
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> CudaToolchain::ArchitectureOf(int major, int minor) const {
  const std::string plain = absl::StrCat("sm_", major, minor);
  for (const std::string& name : {plain + "a", plain}) {
    if (std::find(architectures.begin(), architectures.end(), name) != architectures.end()) {
      return name;
    }
  }
  return std::nullopt;
}

absl::StatusOr<std::unique_ptr<CudaCompiler>> CudaCompiler::Make(CudaCompilerOptions options,
                                                                 CompileCache& cache) {
  std::unique_ptr<CudaCompiler> compiler(new CudaCompiler(std::move(options), cache));
  const CudaToolkit& toolkit = compiler->options_.process.toolkit;
  auto headers = HeaderArchive::Read(toolkit.include_directory, compiler->options_.headers,
                                     toolkit.more_include_directories);
  if (!headers.ok()) {
    return absl::UnavailableError(headers.status().message());
  }
  compiler->headers_ = *std::move(headers);
  KC_ASSIGN_OR_RETURN(auto process, compiler->TakeProcess(CancelToken()));
  const compiler_wire::Hello& hello = process->hello();
  CudaToolchain& toolchain = compiler->toolchain_;
  toolchain.nvrtc_version = hello.version;
  toolchain.description = absl::StrCat("NVRTC ", hello.version);
  for (const char* flag : kBaseFlags) {
    absl::StrAppend(&toolchain.description, flag == kBaseFlags[0] ? "; " : " ", flag);
  }
  for (const std::string& flag : compiler->options_.flags) {
    absl::StrAppend(&toolchain.description, " ", flag);
  }
  absl::StrAppend(&toolchain.description, "; ", compiler->headers_->hash().substr(0, 8));
  for (const uint64_t number : hello.architectures) {
    toolchain.architectures.push_back(absl::StrCat("sm_", number));
    if (number >= 90) {
      toolchain.architectures.push_back(absl::StrCat("sm_", number, "a"));
    }
  }
  compiler->missing_protections_ = hello.missing_protections;
  compiler->ReturnProcess(std::move(process));
  return compiler;
}

CudaCompiler::~CudaCompiler() = default;

absl::StatusOr<std::unique_ptr<CompilerProcess>> CudaCompiler::TakeProcess(
    const CancelToken& cancel, const std::string& program) {
  {
    std::unique_lock lock(mutex_);
    for (;;) {
      while (!idle_.empty()) {
        const auto keeps = std::find_if(idle_.begin(), idle_.end(),
                                        [&](const auto& idle) { return idle->Keeps(program); });
        const auto chosen = keeps == idle_.end() ? idle_.begin() : keeps;
        std::unique_ptr<CompilerProcess> process = std::move(*chosen);
        idle_.erase(chosen);
        if (process->Alive()) {
          return process;
        }
        --processes_;
      }
      if (processes_ < options_.max_processes) {
        break;
      }
      KC_RETURN_IF_ERROR(cancel.Check());
      returned_.wait_for(lock, kLook);
    }
    ++processes_;
  }
  return StartProcess(cancel);
}

absl::StatusOr<std::unique_ptr<CompilerProcess>> CudaCompiler::StartProcess(
    const CancelToken& cancel) {
  auto process = CompilerProcess::Start(options_.process, headers_->fd(), cancel);
  if (!process.ok()) {
    ReturnProcess(nullptr);
  }
  return process;
}

void CudaCompiler::StartProcesses(int count, const CancelToken& cancel) {
  std::vector<std::jthread> starting;
  for (int i = 0; i < count; ++i) {
    {
      const std::lock_guard lock(mutex_);
      if (processes_ >= options_.max_processes) break;
      ++processes_;
    }
    starting.emplace_back([this, &cancel] {
      auto process = StartProcess(cancel);
      if (process.ok()) ReturnProcess(*std::move(process));
    });
  }
}

void CudaCompiler::ReturnProcess(std::unique_ptr<CompilerProcess> process) {
  if (process != nullptr && process->compiles() >= options_.compiles_per_process) {
    process.reset();
  }
  const std::lock_guard lock(mutex_);
  if (process != nullptr) {
    idle_.push_back(std::move(process));
  } else {
    --processes_;
  }
  returned_.notify_one();
}

std::string CudaCompiler::ArtifactId(const std::string& source,
                                     const std::vector<std::string>& flags,
                                     const std::string& architecture) const {
  return ArtifactIdOf("cuda artifact 1", toolchain_.description, architecture, source, flags);
}

absl::StatusOr<CompileResult> CudaCompiler::Compile(const std::string& source,
                                                    const std::vector<std::string>& flags,
                                                    std::span<const LaunchShape> launches,
                                                    const std::string& architecture,
                                                    const CancelToken& cancel) {
  KC_RETURN_IF_ERROR(cancel.Check());
  if (auto problem = CheckCudaFlags(flags)) {
    return RefusedCompile(CompileStage::kAdmission, *problem);
  }
  if (std::find(toolchain_.architectures.begin(), toolchain_.architectures.end(), architecture) ==
      toolchain_.architectures.end()) {
    return RefusedCompile(
        CompileStage::kAdmission,
        absl::StrCat("NVRTC ", toolchain_.nvrtc_version, " does not compile for ", architecture));
  }
  KC_ASSIGN_OR_RETURN(CompileResult result,
                      cache_.GetOrCompile(ArtifactId(source, flags, architecture), cancel, [&] {
                        return CompileFresh(source, flags, architecture, cancel);
                      }));
  auto* success = std::get_if<CompileSuccess>(&result.result);
  if (success == nullptr) {
    return result;
  }
  // Checked after the cache, because candidates that differ only in their launches share the cubin.
  KC_ASSIGN_OR_RETURN(const Cubin cubin, ReadCubin(success->artifact.content));
  for (const LaunchShape& launch : launches) {
    const bool found =
        std::any_of(cubin.kernels.begin(), cubin.kernels.end(),
                    [&](const auto& kernel) { return kernel.name == launch.kernel; });
    if (!found) {
      return RefusedCompile(
          CompileStage::kAdmission,
          absl::StrCat("no kernel '", launch.kernel.substr(0, 200), "' in the source; there ",
                       cubin.kernels.empty() ? "is none" : "are ", QuotedNames(cubin.kernels),
                       " (a kernel is launched by its plain name if it is extern \"C\")"));
    }
  }
  AddLaunchFacts(launches, cubin, architecture, success->facts);
  return result;
}

bool CudaCompiler::Grown(const CompilerProcess& process) const {
  return process.peak_resident_bytes() > options_.process.max_memory_bytes / 2;
}

compiler_wire::CompileRequest CudaCompiler::RequestOf(const std::string& source,
                                                      const std::vector<std::string>& flags,
                                                      const std::string& architecture) const {
  compiler_wire::CompileRequest request;
  request.program = ArtifactId(source, flags, architecture);
  request.source = source;
  request.options.push_back(absl::StrCat("-arch=", architecture));
  request.options.insert(request.options.end(), std::begin(kBaseFlags), std::end(kBaseFlags));
  request.options.insert(request.options.end(), options_.flags.begin(), options_.flags.end());
  request.options.insert(request.options.end(), flags.begin(), flags.end());
  request.headers = headers_->Reach(IncludedFiles(source));
  return request;
}

absl::StatusOr<CompileResult> CudaCompiler::CompileFresh(const std::string& source,
                                                         const std::vector<std::string>& flags,
                                                         const std::string& architecture,
                                                         const CancelToken& cancel) {
  if (auto problem = CheckIncludeDirectives(source, kAllowedHeaders)) {
    return RefusedCompile(CompileStage::kAdmission, *problem);
  }
  if (auto problem = CheckNoDirective(source, kForbiddenDirectives)) {
    return RefusedCompile(CompileStage::kAdmission, *problem);
  }
  if (source.find('\0') != std::string::npos) {
    return RefusedCompile(CompileStage::kAdmission, "the source holds a NUL");
  }
  const std::vector<IncludedFile> included = IncludedFiles(source);
  for (const auto check : {CheckHeaders, CheckStandardHeaders}) {
    if (auto problem = check(*headers_, included, toolchain_.nvrtc_version)) {
      return RefusedCompile(CompileStage::kAdmission, *problem);
    }
  }

  const compiler_wire::CompileRequest request = RequestOf(source, flags, architecture);
  const int64_t start_ns = Clock::Real().MonotonicNs();
  compiler_wire::CompileReply reply;
  CompilerProcess::End end = CompilerProcess::End::kDied;
  int signal = 0;
  for (int attempt = 0; attempt < kAttempts && end == CompilerProcess::End::kDied; ++attempt) {
    KC_ASSIGN_OR_RETURN(auto process, TakeProcess(cancel));
    end = process->Compile(request, options_.timeout_ns, cancel, reply);
    // NVRTC reports a failed allocation as a text among the source's errors.
    const bool grown = Grown(*process);
    if (grown && reply.code == compiler_wire::ReplyCode::kRefused) {
      reply.code = compiler_wire::ReplyCode::kOutOfMemory;
    }
    if (end == CompilerProcess::End::kDied) {
      signal = process->DeathSignal();
      Log(LogLevel::kWarning, "a CUDA compiler process died; replacing it",
          {{"cause", process->CauseOfDeath()}});
    }
    if (end != CompilerProcess::End::kAnswered || grown ||
        reply.code == compiler_wire::ReplyCode::kOutOfMemory ||
        reply.code == compiler_wire::ReplyCode::kBroken) {
      process.reset();
    }
    ReturnProcess(std::move(process));
  }

  switch (end) {
    case CompilerProcess::End::kAnswered: break;
    case CompilerProcess::End::kStopped: return cancel.Check();
    case CompilerProcess::End::kLate:
      return RefusedCompile(
          CompileStage::kLimit,
          absl::StrCat("stopped: the compiler used more than ", options_.timeout_ns / 1'000'000'000,
                       " s of processor time"));
    case CompilerProcess::End::kTooMuch:
      return RefusedCompile(CompileStage::kLimit, "stopped: the compiler's output is too large");
    case CompilerProcess::End::kTooLarge:
      return RefusedCompile(CompileStage::kLimit,
                            "stopped: the compiler exceeded its memory limit");
    case CompilerProcess::End::kStuck:
      return absl::UnavailableError("the CUDA compiler does not answer");
    case CompilerProcess::End::kDied:
      // A source can make NVRTC crash. The machine kills.
      if (signal == SIGKILL || signal == 0) {
        return absl::UnavailableError("the CUDA compiler ended without an answer, twice");
      }
      return RefusedCompile(
          CompileStage::kLimit,
          absl::StrCat("the compiler crashed or exceeded its memory or time limit (signal ", signal,
                       ")"));
  }
  std::string log = WithoutPtxasInfo(reply.log);
  if (log.empty() && reply.code == compiler_wire::ReplyCode::kRefused) {
    log = reply.log;
  }
  const auto truncated = [&log](int64_t max_bytes) {
    return std::string(TruncateUtf8(log, static_cast<size_t>(max_bytes)));
  };
  switch (reply.code) {
    case compiler_wire::ReplyCode::kCompiled: break;
    case compiler_wire::ReplyCode::kRefused:
      return RefusedCompile(CompileStage::kCompiler, truncated(options_.max_log_bytes));
    case compiler_wire::ReplyCode::kOutOfMemory:
      return RefusedCompile(CompileStage::kLimit,
                            "stopped: the compiler exceeded its memory limit");
    case compiler_wire::ReplyCode::kBroken:
      return absl::UnavailableError(absl::StrCat("the CUDA compiler: ", reply.log));
  }
  if (auto problem = CheckPtx(reply.ptx)) {
    return RefusedCompile(CompileStage::kAdmission, *problem);
  }
  const auto cubin = ReadCubin(reply.cubin);
  if (!cubin.ok()) {
    return absl::UnavailableError(
        absl::StrCat("the CUDA compiler: ", std::string(cubin.status().message())));
  }
  CompileSuccess success;
  success.facts = ExtractPtxFacts(reply.ptx, *cubin, ReadPtxasInfo(reply.log));
  success.artifact.artifact_id = request.program;
  success.artifact.format = ArtifactFormat::kCubin;
  success.artifact.architecture = architecture;
  success.artifact.toolchain = toolchain_.description;
  success.artifact.content = std::move(reply.cubin);
  success.log = truncated(options_.max_warning_bytes);
  success.ptx = EntryDeclarations(reply.ptx);
  CompileResult result;
  result.result = std::move(success);
  result.compile_ns = Clock::Real().MonotonicNs() - start_ns;
  return result;
}

CompilerProcess::End CudaCompiler::SimulateIn(CompilerProcess& process,
                                              const SimulatedProgram& program,
                                              const compiler_wire::SimulateRequest& request,
                                              const CancelToken& cancel,
                                              compiler_wire::SimulateReply& reply) const {
  using End = CompilerProcess::End;
  End end = process.Simulate(request, options_.simulation_timeout_ns, cancel, reply);
  if (end != End::kAnswered || reply.known) return end;
  compiler_wire::CompileReply compiled;
  end = process.Compile(RequestOf(program.source, program.flags, program.architecture),
                        options_.timeout_ns, cancel, compiled);
  if (end != End::kAnswered) return end;
  return process.Simulate(request, options_.simulation_timeout_ns, cancel, reply);
}

absl::StatusOr<std::vector<ShapeSimulation>> CudaCompiler::Simulate(
    const SimulatedProgram& program, std::vector<SimulationPlan> plans,
    std::vector<SimulationPlan> checks, const std::string& device, const CancelToken& cancel) {
  std::vector<ShapeSimulation> simulations;
  const virtual_gpu::GpuModel* gpu = virtual_gpu::FindGpuModel(device, program.architecture);
  if (gpu == nullptr || plans.empty()) {
    return simulations;
  }
  compiler_wire::SimulateRequest request;
  request.gpu = static_cast<uint64_t>(gpu - virtual_gpu::AllGpuModels().data());
  for (SimulationPlan& plan : plans) {
    request.shapes.push_back(
        {std::move(plan.buffers), std::move(plan.launches), std::move(plan.resources)});
  }
  const size_t estimated = request.shapes.size();
  for (SimulationPlan& plan : checks) {
    request.shapes.push_back(
        {std::move(plan.buffers), std::move(plan.launches), std::move(plan.resources), true});
    if (plan.compared != nullptr) request.shapes.back().wanted = OutputsOf(*plan.compared);
  }
  compiler_wire::SimulateReply reply;
  KC_ASSIGN_OR_RETURN(const bool answered, RunSimulation(program, request, cancel, reply));
  for (size_t k = 0; k < estimated; ++k) {
    ShapeSimulation& simulation = simulations.emplace_back();
    simulation.schema = std::string(kCudaSimulationSchemaId);
    simulation.gpu = std::string(gpu->name);
    if (!answered) {
      for (const virtual_gpu::LaunchSpec& launch : request.shapes[k].launches) {
        simulation.launches.push_back({launch.kernel, {}, "more time or memory than the limit"});
      }
      continue;
    }
    for (compiler_wire::SimulateReply::Launch& launch : reply.shapes[k]) {
      simulation.launches.push_back(
          {std::move(launch.kernel), std::move(launch.values), std::move(launch.not_covered)});
    }
  }
  if (answered && !simulations.empty() && !checks.empty()) {
    AddFindings(reply, estimated, checks, simulations.front());
    AddMismatches(request, reply, estimated, checks, simulations.front());
  }
  return simulations;
}

absl::StatusOr<bool> CudaCompiler::RunSimulation(const SimulatedProgram& program,
                                                 compiler_wire::SimulateRequest& request,
                                                 const CancelToken& cancel,
                                                 compiler_wire::SimulateReply& reply) {
  request.ptx = program.ptx;
  if (program.ptx.empty()) {
    request.program = ArtifactId(program.source, program.flags, program.architecture);
  }
  KC_ASSIGN_OR_RETURN(auto process, TakeProcess(cancel, request.program));
  const CompilerProcess::End end = SimulateIn(*process, program, request, cancel, reply);
  if (end == CompilerProcess::End::kDied) {
    Log(LogLevel::kWarning, "a virtual GPU process died; replacing it",
        {{"cause", process->CauseOfDeath()}});
  }
  if (end != CompilerProcess::End::kAnswered || Grown(*process)) {
    process.reset();
  }
  ReturnProcess(std::move(process));
  if (end == CompilerProcess::End::kStopped) {
    return cancel.Check();
  }
  return end == CompilerProcess::End::kAnswered && reply.shapes.size() == request.shapes.size() &&
         reply.contents.size() == request.shapes.size();
}

absl::Status CudaCompiler::RunTrusted(
    const KernelProgram& program, const std::string& architecture,
    std::vector<SimulatedCase>& cases,
    const std::function<absl::StatusOr<SimulationPlan>(const SimulatedCase&)>& plan_of,
    const std::function<absl::Status(SimulatedCase&, std::span<const std::string>,
                                     const std::string&)>& take,
    const CancelToken& cancel) {
  compiler_wire::SimulateRequest request;
  request.check_steps = kTrustedSteps;
  std::vector<SimulatedCase*> run;
  for (SimulatedCase& at : cases) {
    if (!at.not_compared.empty()) continue;
    absl::StatusOr<SimulationPlan> plan = plan_of(at);
    if (!plan.ok()) {
      at.not_compared = std::string(plan.status().message());
      continue;
    }
    request.shapes.push_back({std::move(plan->buffers), std::move(plan->launches),
                              std::move(plan->resources), true, OutputsOf(at)});
    run.push_back(&at);
  }
  if (run.empty()) return absl::OkStatus();
  KC_ASSIGN_OR_RETURN(const CompileResult compiled,
                      Compile(program.source, program.flags, {}, architecture, cancel));
  compiler_wire::SimulateReply reply;
  std::string why = "does not compile";
  bool answered = false;
  if (std::holds_alternative<CompileSuccess>(compiled.result)) {
    why = "more time or memory than the limit";
    KC_ASSIGN_OR_RETURN(answered, RunSimulation({architecture, program.source, program.flags},
                                                request, cancel, reply));
  }
  for (size_t k = 0; k < run.size(); ++k) {
    const bool known = answered && !reply.contents[k].empty();
    const absl::Status taken = take(
        *run[k],
        known ? std::span<const std::string>(reply.contents[k]) : std::span<const std::string>(),
        known      ? ""
        : answered ? WhyInexact(reply.shapes[k])
                   : why);
    if (!taken.ok()) run[k]->not_compared = std::string(taken.message());
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const std::vector<SimulatedCase>>> CudaCompiler::CasesOf(
    const Problem& problem, const ProblemTarget& target, const std::string& architecture,
    const CancelToken& cancel) {
  const std::string key = absl::StrCat(problem.problem_id, " ", architecture);
  const auto find = [&] {
    return std::find_if(cases_.begin(), cases_.end(),
                        [&](const KeptCases& kept) { return kept.key == key; });
  };
  {
    std::unique_lock lock(mutex_);
    auto kept = find();
    while (kept != cases_.end() && kept->cases == nullptr) {
      KC_RETURN_IF_ERROR(cancel.Check());
      returned_.wait_for(lock, kLook);
      kept = find();
    }
    if (kept != cases_.end()) return kept->cases;
    cases_.push_back({key, nullptr});
  }
  std::vector<SimulatedCase> cases = SimulatedCases(problem, target);
  const absl::Status filled = FillCases(problem, target, architecture, cases, cancel);
  const std::lock_guard lock(mutex_);
  const auto kept = find();
  if (!filled.ok()) {
    cases_.erase(kept);
    return filled;
  }
  kept->cases = std::make_shared<const std::vector<SimulatedCase>>(std::move(cases));
  const std::shared_ptr<const std::vector<SimulatedCase>> made = kept->cases;
  if (cases_.size() > kKeptProblems && cases_.front().cases != nullptr) cases_.pop_front();
  return made;
}

absl::Status CudaCompiler::FillCases(const Problem& problem, const ProblemTarget& target,
                                     const std::string& architecture,
                                     std::vector<SimulatedCase>& cases, const CancelToken& cancel) {
  if (!target.oracle) return absl::OkStatus();
  KC_RETURN_IF_ERROR(RunTrusted(
      *target.oracle, architecture, cases,
      [&](const SimulatedCase& at) { return PlanOracle(problem, *target.oracle, at); },
      [&](SimulatedCase& at, std::span<const std::string> outputs, const std::string& why) {
        if (outputs.empty()) {
          at.not_compared = absl::StrCat("the oracle: ", why);
          return absl::OkStatus();
        }
        return SetExpected(problem, outputs, at);
      },
      cancel));
  // The reference is right, so its outputs test the comparison itself.
  return RunTrusted(
      target.reference, architecture, cases,
      [&](const SimulatedCase& at) -> absl::StatusOr<SimulationPlan> {
        KC_ASSIGN_OR_RETURN(SimulationPlan plan, PlanSimulation(problem, target.reference.launches,
                                                                target.reference.workspace_bytes,
                                                                {}, at.spec.axes, Cubin()));
        SetContents(at, plan);
        return plan;
      },
      [&](SimulatedCase& at, std::span<const std::string> outputs, const std::string&) {
        if (outputs.empty()) return absl::OkStatus();
        const SimulatedComparison comparison = CompareSimulated(at, outputs);
        if (!comparison.mismatches.empty() || !comparison.unknown.empty()) {
          at.not_compared = "the reference disagrees on the virtual GPU";
        }
        return absl::OkStatus();
      },
      cancel);
}

}  // namespace kernelcast::worker
