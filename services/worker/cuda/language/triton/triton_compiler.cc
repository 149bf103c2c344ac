#include "services/worker/cuda/language/triton/triton_compiler.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/hash.h"
#include "common/base/status.h"
#include "common/base/utf8.h"
#include "common/domain/candidate.h"
#include "common/domain/launch_geometry.h"
#include "common/domain/text.h"
#include "services/worker/cuda/compiler/admission.h"
#include "services/worker/cuda/compiler/cubin.h"
#include "services/worker/cuda/compiler/ptx_facts.h"
#include "services/worker/cuda/language/device_code.h"
#include "services/worker/cuda/language/triton/ptx_module.h"
#include "services/worker/cuda/language/triton/triton_wire.h"
#include "services/worker/native/step_verdict.h"

namespace kernelcast::worker {

extern const char* const kTritonProgram;

namespace {

constexpr const char* kName = "Triton";
constexpr const char* kSourceName = "candidate.py";  // in compile_server.py too
constexpr const char* kPtxName = "kernel.ptx";
constexpr const char* kCubinName = "kernel.cubin";
constexpr int64_t kVersionLimitNs = 10'000'000'000;
constexpr size_t kMaxAssemblerLogBytes = 64 << 10;
constexpr int64_t kWarpLanes = 32;

// 13, 0 of "Cuda compilation tools, release 13.0, V13.0.88".
std::optional<std::pair<int, int>> ReleaseOf(std::string_view text) {
  constexpr std::string_view kMark = "release ";
  const size_t at = text.find(kMark);
  if (at == std::string_view::npos) return std::nullopt;
  const char* const end = text.data() + text.size();
  int major = 0;
  int minor = 0;
  const auto first = std::from_chars(text.data() + at + kMark.size(), end, major);
  if (first.ec != std::errc() || first.ptr == end || *first.ptr != '.') return std::nullopt;
  const auto second = std::from_chars(first.ptr + 1, end, minor);
  if (second.ec != std::errc()) return std::nullopt;
  return std::pair(major, minor);
}

// The newest PTX that a release of CUDA 12 or later knows, as 87 for 8.7.
uint64_t PtxVersionOf(int major, int minor) {
  if (major >= 13) return static_cast<uint64_t>(90 + 10 * (major - 13) + minor);
  return static_cast<uint64_t>(minor < 6 ? 80 + minor : 79 + minor);
}

// Returns a fault in the description of a kernel that the sandbox sent, or "".
std::string CheckKernel(const TritonReply::Kernel& kernel) {
  if (kernel.scratch_bytes > 0) {
    return "needs scratch memory in global memory, such as for tensor descriptors made on the "
           "device, which is not supported";
  }
  if (kernel.num_ctas != 1) return "uses clusters of blocks, which is not supported";
  if (kernel.shared_bytes > static_cast<uint64_t>(kMaxSharedMemoryBytes)) {
    return absl::StrCat("needs ", kernel.shared_bytes, " bytes of shared memory; at most ",
                        kMaxSharedMemoryBytes, " are allowed (use smaller blocks or num_stages)");
  }
  return "";
}

}  // namespace

absl::StatusOr<std::unique_ptr<TritonCompiler>> TritonCompiler::Make(TritonCompilerOptions options,
                                                                     CompileCache& cache) {
  CompileServerOptions server;
  server.compiler = kName;
  server.program = kTritonProgram;
  server.sandbox = options.sandbox;
  server.work_directory = options.work_directory;
  server.timeout_ns = options.timeout_ns;
  std::unique_ptr<TritonCompiler> compiler(new TritonCompiler(std::move(options), cache));
  KC_ASSIGN_OR_RETURN(
      compiler->server_,
      CompileServer::Start(std::move(server), compiler->options_.python, CancelToken()));
  KC_RETURN_IF_ERROR(compiler->ProbeAssembler());
  return compiler;
}

absl::Status TritonCompiler::ProbeAssembler() {
  assembler_ = options_.toolkit.ptxas;
  if (assembler_.empty()) {
    return absl::UnavailableError(absl::StrCat("there is no ptxas in ", options_.toolkit.home));
  }
  options_.sandbox.read_only = {
      assembler_,   "/lib64",          "/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu",
      "/usr/lib64", "/etc/ld.so.cache"};
  KC_ASSIGN_OR_RETURN(const WorkFolder trial,
                      WorkFolder::Make(options_.work_directory, options_.sandbox.uid));
  KC_ASSIGN_OR_RETURN(
      const CompilerStep version,
      RunAssembler({"--version"}, trial.path(), {.timeout_ns = kVersionLimitNs}, CancelToken()));
  const auto release = ReleaseOf(version.log);
  if (!version.ok || !release || release->first < 12) {
    return absl::UnavailableError(
        absl::StrCat(assembler_, " does not work: ", version.log.substr(0, 500)));
  }
  ptx_version_ = PtxVersionOf(release->first, release->second);
  assembler_flags_ = {"-v"};
  // Triton's own way round a fault of this release.
  if (release->first >= 13) assembler_flags_.emplace_back("--regAllocOptLevel=2");
  const PythonInterpreter& python = server_->python();
  description_ =
      absl::StrCat(kName, " ", python.package_version, "; Python ", python.python_version,
                   "; ptxas ", release->first, ".", release->second);
  for (const std::string& flag : assembler_flags_) absl::StrAppend(&description_, " ", flag);
  return absl::OkStatus();
}

absl::StatusOr<CompilerStep> TritonCompiler::RunAssembler(const std::vector<std::string>& arguments,
                                                          const std::string& directory,
                                                          const CompilerLimits& limits,
                                                          const CancelToken& cancel) const {
  std::vector<std::string> argv = {assembler_};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  return RunCompilerStep(options_.sandbox, argv, {"LC_ALL=C", absl::StrCat("TMPDIR=", directory)},
                         directory, limits, cancel);
}

absl::StatusOr<CompilerStep> TritonCompiler::RunControl(const std::vector<std::string>& arguments,
                                                        const std::string& architecture,
                                                        const CancelToken& cancel) const {
  KC_ASSIGN_OR_RETURN(const WorkFolder folder,
                      WorkFolder::Make(options_.work_directory, options_.sandbox.uid));
  KC_RETURN_IF_ERROR(folder.Write(
      kPtxName,
      absl::StrCat(".version ", ptx_version_ / 10, ".", ptx_version_ % 10, "\n.target ",
                   architecture, "\n.address_size 64\n", ".visible .entry control() { ret; }\n")));
  return RunAssembler(arguments, folder.path(), options_.assembler_limits, cancel);
}

std::string TritonCompiler::ArtifactId(const Candidate& candidate,
                                       const std::string& architecture) const {
  ContentHasher hasher;
  // The id of a candidate covers all that variants depend on, and what they do not.
  hasher.Add("triton artifact 2").Add(description_).Add(architecture).Add(CandidateId(candidate));
  return absl::StrCat("a_", hasher.Hex128());
}

absl::StatusOr<CompileResult> TritonCompiler::Compile(const CompileJob& job,
                                                      const CancelToken& cancel) {
  KC_RETURN_IF_ERROR(cancel.Check());
  const auto& [problem, target, candidate, gpu] = job;
  if (!candidate.flags.empty()) return Refusal("flags: device_triton candidates have none");
  if (ArchitectureNumber(gpu.architecture) < 80) {
    return Refusal(absl::StrCat("Triton does not compile for ", gpu.architecture));
  }
  const auto plan = PlanTriton(problem, target, candidate);
  if (!plan.ok()) return Refusal(std::string(plan.status().message()));
  KC_ASSIGN_OR_RETURN(CompileResult result,
                      cache_.GetOrCompile(ArtifactId(candidate, gpu.architecture), cancel, [&] {
                        return CompileFresh(candidate, *plan, gpu.architecture, cancel);
                      }));
  KC_RETURN_IF_ERROR(AddDecidedLaunchFacts(job, result));
  return result;
}

absl::StatusOr<CompileResult> TritonCompiler::CompileFresh(const Candidate& candidate,
                                                           const TritonPlan& plan,
                                                           const std::string& architecture,
                                                           const CancelToken& cancel) {
  const int64_t start_ns = Clock::Real().MonotonicNs();
  TritonRequest request;
  request.architecture = ArchitectureNumber(architecture);
  request.ptx_version = ptx_version_;
  request.source = candidate.source;
  request.variants = plan.variants;
  KC_ASSIGN_OR_RETURN(CompileServer::Outcome outcome, server_->Compile(request.Encode(), cancel));
  if (auto* const error = std::get_if<CompileError>(&outcome)) {
    return Refusal(std::move(error->log), error->stage);
  }
  const auto decoded = TritonReply::Decode(std::get<std::string>(outcome));
  const TritonReply reply = decoded.value_or(TritonReply());
  if (reply.kernels.size() != plan.variants.size()) {
    return Refusal("the source has changed what the compiler returns", CompileStage::kCompiler);
  }
  std::vector<std::string> texts;
  for (size_t i = 0; i < reply.kernels.size(); ++i) {
    if (const std::string problem = CheckKernel(reply.kernels[i]); !problem.empty()) {
      return Refusal(absl::StrCat("kernel ", Quoted(plan.variants[i].kernel), " ", problem));
    }
    texts.push_back(reply.kernels[i].ptx);
  }
  const auto module = MergePtx(texts, architecture, kSourceName);
  if (!module.ok()) {
    return Refusal(std::string(module.status().message()));
  }
  if (auto problem = CheckPtx(module->text)) return Refusal(*problem);
  std::vector<TritonKernelFacts> compiled;
  for (size_t i = 0; i < module->kernels.size(); ++i) {
    const PtxKernel& kernel = module->kernels[i];
    if (kernel.block_threads % kWarpLanes != 0) {
      return Refusal(absl::StrCat("kernel ", Quoted(kernel.name), " has blocks of ",
                                  kernel.block_threads, " threads, which are not whole warps"));
    }
    compiled.push_back({kernel.name, kernel.block_threads,
                        static_cast<int64_t>(reply.kernels[i].shared_bytes), kernel.parameters});
  }
  auto launches = ResolveLaunches(plan, compiled);
  if (!launches.ok()) {
    return Refusal(std::string(launches.status().message()));
  }

  KC_ASSIGN_OR_RETURN(const WorkFolder folder,
                      WorkFolder::Make(options_.work_directory, options_.sandbox.uid));
  KC_RETURN_IF_ERROR(folder.Write(kPtxName, module->text));
  std::vector<std::string> arguments = assembler_flags_;
  arguments.insert(arguments.end(),
                   {absl::StrCat("-arch=", architecture), kPtxName, "-o", kCubinName});
  KC_ASSIGN_OR_RETURN(
      const CompilerStep assembled,
      RunWithVerdict(
          folder.path(), Evidence::kExitCode,
          [&] { return RunAssembler(arguments, folder.path(), options_.assembler_limits, cancel); },
          [&] { return RunControl(arguments, architecture, cancel); }));
  if (!assembled.ok) {
    return Refusal(absl::StrCat("ptxas: ", std::string(TruncateUtf8(SanitizeUtf8(assembled.log),
                                                                    kMaxAssemblerLogBytes - 16))),
                   assembled.limit ? CompileStage::kLimit : CompileStage::kCompiler);
  }
  std::optional<std::string> content = folder.Read(kCubinName);
  if (!content) return absl::UnavailableError(absl::StrCat("ptxas left no ", kCubinName));
  const auto cubin = ReadCubin(*content);
  if (!cubin.ok()) {
    return absl::UnavailableError(absl::StrCat("ptxas: ", cubin.status().message()));
  }
  CompileSuccess success;
  success.facts = ExtractPtxFacts(module->text, *cubin, ReadPtxasInfo(assembled.log));
  success.artifact.artifact_id = ArtifactId(candidate, architecture);
  success.artifact.format = ArtifactFormat::kCubin;
  success.artifact.architecture = architecture;
  success.artifact.toolchain = description_;
  success.artifact.content = EncodeDeviceArtifact({*std::move(content), *std::move(launches)});
  success.ptx = module->text;
  CompileResult result;
  result.result = std::move(success);
  result.compile_ns = Clock::Real().MonotonicNs() - start_ns;
  return result;
}

}  // namespace kernelcast::worker
