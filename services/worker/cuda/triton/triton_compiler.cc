#include "services/worker/cuda/triton/triton_compiler.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/hash.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/base/utf8.h"
#include "common/domain/candidate.h"
#include "common/domain/text.h"
#include "services/worker/core/launch_plan.h"
#include "services/worker/cuda/compiler/admission.h"
#include "services/worker/cuda/compiler/cubin.h"
#include "services/worker/cuda/compiler/kernel_parameters.h"
#include "services/worker/cuda/compiler/ptx_facts.h"
#include "services/worker/cuda/compiler/wire.h"
#include "services/worker/cuda/triton/ptx_module.h"
#include "services/worker/cuda/triton/triton_wire.h"
#include "services/worker/native/step_verdict.h"

namespace kernelcast::worker {
namespace {

namespace fs = std::filesystem;

using compiler_wire::Decoder;
using compiler_wire::Encoder;

constexpr const char* kSourceName = "candidate.py";  // in compile_server.py too
constexpr const char* kPtxName = "kernel.ptx";
constexpr const char* kCubinName = "kernel.cubin";
constexpr int64_t kVersionLimitNs = 10'000'000'000;
constexpr size_t kMaxWarningBytes = 16 << 10;
constexpr size_t kMaxLogBytes = 64 << 10;
constexpr int64_t kWarpLanes = 32;
// Ends an artefact, after the size of the launches. A loader of cubins ignores what follows them.
constexpr std::string_view kArtifactMark = "kernelcast triton launches 1\n";
constexpr int kAttempts = 2;

CompileResult Refused(CompileStage stage, std::string log) {
  CompileResult result;
  result.result = CompileError{stage, std::move(log)};
  return result;
}

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

void AddTexts(const std::vector<std::string>& texts, Encoder& encoder) {
  encoder.Number(texts.size());
  for (const std::string& text : texts) encoder.Text(text);
}

std::vector<std::string> ReadTexts(Decoder& decoder) {
  std::vector<std::string> texts;
  for (uint64_t left = decoder.Count(); left > 0; --left) texts.emplace_back(decoder.Text());
  return texts;
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

uint64_t ArchitectureNumber(const std::string& architecture) {
  uint64_t number = 0;
  if (!architecture.starts_with("sm_")) return 0;
  std::from_chars(architecture.data() + 3, architecture.data() + architecture.size(), number);
  return number;
}

std::string EncodeTritonArtifact(const TritonArtifact& artifact) {
  Encoder encoder;
  encoder.Number(artifact.launches.size());
  for (const Launch& launch : artifact.launches) {
    encoder.Text(launch.kernel).Text(launch.shared_memory_bytes).Text(launch.when);
    AddTexts(launch.grid, encoder);
    AddTexts(launch.block, encoder);
    AddTexts(launch.arguments, encoder);
  }
  // A frame begins with its size; here the size is at the end.
  const std::string frame = encoder.Take();
  return absl::StrCat(artifact.cubin, frame.substr(sizeof(uint64_t)),
                      frame.substr(0, sizeof(uint64_t)), std::string(kArtifactMark));
}

absl::StatusOr<TritonArtifact> DecodeTritonArtifact(std::string_view content) {
  const absl::Status damaged =
      absl::InvalidArgumentError("the artefact is not that of a device_triton candidate");
  constexpr size_t kTailBytes = sizeof(uint64_t) + kArtifactMark.size();
  if (content.size() < kTailBytes || !content.ends_with(kArtifactMark)) return damaged;
  const std::string_view tail = content.substr(content.size() - kTailBytes);
  Decoder sizes(tail.substr(0, sizeof(uint64_t)));
  const uint64_t size = sizes.Number();
  content.remove_suffix(kTailBytes);
  if (size > content.size()) return damaged;
  TritonArtifact artifact;
  artifact.cubin = std::string(content.substr(0, content.size() - size));
  Decoder decoder(content.substr(content.size() - size));
  for (uint64_t left = decoder.Count(); left > 0; --left) {
    Launch& launch = artifact.launches.emplace_back();
    launch.kernel = decoder.Text();
    launch.shared_memory_bytes = decoder.Text();
    launch.when = decoder.Text();
    launch.grid = ReadTexts(decoder);
    launch.block = ReadTexts(decoder);
    launch.arguments = ReadTexts(decoder);
  }
  if (!decoder.done() || artifact.launches.empty()) return damaged;
  return artifact;
}

absl::StatusOr<std::unique_ptr<TritonCompiler>> TritonCompiler::Make(TritonCompilerOptions options,
                                                                     CompileCache& cache) {
  if (options.python.empty()) {
    return absl::UnavailableError("no Python interpreter with Triton is configured (--python)");
  }
  auto python = ProbeInterpreter(options.python, kTritonProbe, "triton");
  if (!python.ok()) return absl::UnavailableError(python.status().message());
  std::unique_ptr<TritonCompiler> compiler(new TritonCompiler(std::move(options), cache));
  compiler->python_ = *std::move(python);
  KC_RETURN_IF_ERROR(compiler->ProbeAssembler());
  KC_RETURN_IF_ERROR(compiler->Server(CancelToken()).status());
  return compiler;
}

absl::Status TritonCompiler::ProbeAssembler() {
  const fs::path home(options_.toolkit.home);
  assembler_ = fs::absolute(home / "bin/ptxas").lexically_normal().string();
  std::error_code ignored;
  if (!fs::exists(assembler_, ignored)) {
    return absl::UnavailableError(absl::StrCat("there is no ptxas in ", home.string()));
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
  name_ = absl::StrCat("Triton ", python_.package_version);
  description_ = absl::StrCat(name_, "; Python ", python_.python_version, "; ptxas ",
                              release->first, ".", release->second);
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

absl::StatusOr<std::shared_ptr<TritonServer>> TritonCompiler::Server(const CancelToken& cancel) {
  // Others wait for the one that starts it.
  const std::lock_guard lock(mutex_);
  if (server_ != nullptr && server_->Alive()) return server_;
  if (server_ != nullptr) Log(LogLevel::kWarning, "the Triton compiler has ended; restarting it");
  TritonServerOptions server;
  server.python = python_;
  server.sandbox.program = options_.sandbox.program;
  server.sandbox.uid = options_.sandbox.uid;
  server.work_directory = options_.work_directory;
  server.timeout_ns = options_.timeout_ns;
  KC_ASSIGN_OR_RETURN(server_, TritonServer::Start(std::move(server), cancel));
  return server_;
}

std::string TritonCompiler::ArtifactId(const Candidate& candidate,
                                       const std::string& architecture) const {
  ContentHasher hasher;
  // The id of a candidate covers all that variants depend on, and what they do not.
  hasher.Add("triton artifact 1").Add(description_).Add(architecture).Add(CandidateId(candidate));
  return absl::StrCat("a_", hasher.Hex128());
}

absl::StatusOr<CompileResult> TritonCompiler::Compile(const Problem& problem,
                                                      const ProblemTarget& target,
                                                      const Candidate& candidate,
                                                      const std::string& architecture,
                                                      const CancelToken& cancel) {
  KC_RETURN_IF_ERROR(cancel.Check());
  if (!candidate.flags.empty()) {
    return Refused(CompileStage::kAdmission, "flags: device_triton candidates have none");
  }
  const uint64_t number = ArchitectureNumber(architecture);
  if (number < 80) {
    return Refused(CompileStage::kAdmission,
                   absl::StrCat("Triton does not compile for ", architecture));
  }
  const auto plan = PlanTriton(problem, target, candidate);
  if (!plan.ok()) return Refused(CompileStage::kAdmission, std::string(plan.status().message()));
  KC_ASSIGN_OR_RETURN(CompileResult result,
                      cache_.GetOrCompile(ArtifactId(candidate, architecture), cancel, [&] {
                        return CompileFresh(candidate, *plan, architecture, cancel);
                      }));
  auto* success = std::get_if<CompileSuccess>(&result.result);
  if (success == nullptr) return result;
  KC_ASSIGN_OR_RETURN(const TritonArtifact artifact,
                      DecodeTritonArtifact(success->artifact.content));
  KC_ASSIGN_OR_RETURN(const Cubin cubin, ReadCubin(artifact.cubin));
  const auto planned = PlanLaunches(problem, artifact.launches, candidate.workspace_bytes,
                                    candidate.tunables, target.bench_shapes.front());
  if (!planned.ok()) {
    return Refused(CompileStage::kAdmission, std::string(planned.status().message()));
  }
  std::vector<Launch> launched;
  for (const PlannedLaunch& launch : planned->launches) {
    launched.push_back(artifact.launches[launch.index]);
  }
  AddLaunchFacts(LaunchShapesOf(launched, candidate.tunables), cubin, architecture, success->facts);
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
  absl::StatusOr<TritonServer::Compilation> compilation;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    KC_ASSIGN_OR_RETURN(const std::shared_ptr<TritonServer> server, Server(cancel));
    compilation = server->Compile(request, cancel);
    if (!absl::IsUnavailable(compilation.status())) break;
  }
  KC_RETURN_IF_ERROR(compilation.status());
  const TritonReply& reply = compilation->reply;
  if (reply.code != TritonCode::kCompiled) {
    const CompileStage stage = compilation->limit                     ? CompileStage::kLimit
                               : reply.code == TritonCode::kAdmission ? CompileStage::kAdmission
                                                                      : CompileStage::kCompiler;
    return Refused(stage, std::string(TruncateUtf8(reply.log, kMaxLogBytes)));
  }
  if (reply.kernels.size() != plan.variants.size()) {
    return Refused(CompileStage::kCompiler, "the source has changed what the compiler returns");
  }
  std::vector<std::string> texts;
  for (size_t i = 0; i < reply.kernels.size(); ++i) {
    if (const std::string problem = CheckKernel(reply.kernels[i]); !problem.empty()) {
      return Refused(CompileStage::kAdmission,
                     absl::StrCat("kernel ", Quoted(plan.variants[i].kernel), " ", problem));
    }
    texts.push_back(reply.kernels[i].ptx);
  }
  const auto module = MergePtx(texts, architecture, kSourceName);
  if (!module.ok()) {
    return Refused(CompileStage::kAdmission, std::string(module.status().message()));
  }
  if (auto problem = CheckPtx(module->text)) return Refused(CompileStage::kAdmission, *problem);
  std::vector<TritonKernelFacts> compiled;
  for (size_t i = 0; i < module->kernels.size(); ++i) {
    const PtxKernel& kernel = module->kernels[i];
    if (kernel.block_threads % kWarpLanes != 0) {
      return Refused(CompileStage::kAdmission,
                     absl::StrCat("kernel ", Quoted(kernel.name), " has blocks of ",
                                  kernel.block_threads, " threads, which are not whole warps"));
    }
    compiled.push_back({kernel.name, kernel.block_threads,
                        static_cast<int64_t>(reply.kernels[i].shared_bytes), kernel.parameters});
  }
  auto launches = ResolveLaunches(plan, compiled);
  if (!launches.ok()) {
    return Refused(CompileStage::kAdmission, std::string(launches.status().message()));
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
    return Refused(assembled.limit ? CompileStage::kLimit : CompileStage::kCompiler,
                   absl::StrCat("ptxas: ", std::string(TruncateUtf8(SanitizeUtf8(assembled.log),
                                                                    kMaxLogBytes - 16))));
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
  success.artifact.content = EncodeTritonArtifact({*std::move(content), *std::move(launches)});
  success.log = std::string(TruncateUtf8(reply.log, kMaxWarningBytes));
  success.ptx = module->text;
  CompileResult result;
  result.result = std::move(success);
  result.compile_ns = Clock::Real().MonotonicNs() - start_ns;
  return result;
}

}  // namespace kernelcast::worker
