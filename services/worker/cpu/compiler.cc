#include "services/worker/cpu/compiler.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/base/utf8.h"
#include "services/worker/core/artifact_id.h"
#include "services/worker/core/source_scan.h"
#include "services/worker/cpu/admission.h"
#include "services/worker/cpu/assembly_facts.h"
#include "services/worker/native/assembly_text.h"
#include "services/worker/native/compiler_output.h"
#include "services/worker/native/compiler_step.h"
#include "services/worker/native/shared_object.h"

namespace kernelcast::worker {
namespace {

constexpr std::string_view kAllowedHeaders = "headers of the toolchain and kernelcast/candidate.h";
constexpr const char* kSourceName = "kernel.cc";
constexpr const char* kAssemblyName = "kernel.s";
constexpr const char* kDependencyName = "kernel.d";
constexpr const char* kRelocatableName = "kernel.o";
constexpr const char* kObjectName = "kernel.so";
// Needs what candidates need: headers, the assembler and the linker.
constexpr const char* kControlSource =
    "#include <kernelcast/candidate.h>\n#include <cmath>\n"
    "extern \"C\" double control(double x) { return std::sqrt(x); }\n";

}  // namespace

CpuCompiler::CpuCompiler(Toolchain toolchain, CompilerOptions options)
    : toolchain_(std::move(toolchain)), options_(std::move(options)), sandbox_(options_.sandbox) {
  for (const auto* paths : {&toolchain_.read_only, &options_.include_directories}) {
    sandbox_.read_only.insert(sandbox_.read_only.end(), paths->begin(), paths->end());
  }
}

absl::StatusOr<std::vector<std::string>> CpuCompiler::MissingProtections() const {
  KC_ASSIGN_OR_RETURN(const WorkFolder folder,
                      WorkFolder::Make(options_.work_directory, sandbox_.uid));
  return worker::MissingProtections(sandbox_, folder.path());
}

std::string CpuCompiler::ArtifactId(const std::string& source,
                                    const std::vector<std::string>& flags) const {
  return ArtifactIdOf("cpu artifact 2", toolchain_.description, toolchain_.architecture, source,
                      flags);
}

absl::StatusOr<CompilerStep> CpuCompiler::Run(const std::string& program,
                                              const std::vector<std::string>& arguments,
                                              const std::string& directory, Evidence evidence,
                                              const CancelToken& cancel) const {
  std::vector<std::string> argv = {program};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  return RunWithVerdict(
      directory, evidence,
      [&] {
        return RunCompilerStep(sandbox_, argv, CompilerEnvironment(directory), directory,
                               options_.limits, cancel);
      },
      [&] { return RunControl(cancel); });
}

absl::StatusOr<CompilerStep> CpuCompiler::RunControl(const CancelToken& cancel) const {
  KC_ASSIGN_OR_RETURN(const WorkFolder folder,
                      WorkFolder::Make(options_.work_directory, sandbox_.uid));
  KC_RETURN_IF_ERROR(folder.Write(kSourceName, kControlSource));
  std::vector<std::string> argv = {toolchain_.compiler};
  argv.insert(argv.end(), BaseFlags().begin(), BaseFlags().end());
  for (const std::string& include : options_.include_directories) {
    argv.push_back(absl::StrCat("-I", include));
  }
  const std::vector<std::string> link = LinkArguments({kSourceName, "-o", kObjectName, "-lm"});
  argv.insert(argv.end(), link.begin(), link.end());
  return RunCompilerStep(sandbox_, argv, CompilerEnvironment(folder.path()), folder.path(),
                         options_.limits, cancel);
}

absl::StatusOr<CompileResult> CpuCompiler::Compile(const std::string& source,
                                                   const std::vector<std::string>& flags,
                                                   const CancelToken& cancel) const {
  KC_RETURN_IF_ERROR(cancel.Check());
  if (auto problem = CheckFlags(flags)) {
    return RefusedCompile(CompileStage::kAdmission, *problem);
  }
  if (auto problem = CheckIncludeDirectives(source, kAllowedHeaders)) {
    return RefusedCompile(CompileStage::kAdmission, *problem);
  }
  const int64_t start_ns = Clock::Real().MonotonicNs();
  KC_ASSIGN_OR_RETURN(const WorkFolder folder,
                      WorkFolder::Make(options_.work_directory, sandbox_.uid));
  auto result = CompileIn(folder, source, flags, cancel);
  if (result.ok()) {
    result->compile_ns = Clock::Real().MonotonicNs() - start_ns;
  }
  return result;
}

absl::StatusOr<CompileResult> CpuCompiler::CompileIn(const WorkFolder& folder,
                                                     const std::string& source,
                                                     const std::vector<std::string>& flags,
                                                     const CancelToken& cancel) const {
  KC_RETURN_IF_ERROR(folder.Write(kSourceName, source));

  std::vector<std::string> arguments = BaseFlags();
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  for (const char* argument :
       {"-S", "-fno-lto", "-MD", "-MF", kDependencyName, "-fdiagnostics-color=never",
        "-fmax-errors=20", "-o", kAssemblyName}) {
    arguments.emplace_back(argument);
  }
  std::vector<std::string> allowed = toolchain_.include_directories;
  for (const std::string& include : options_.include_directories) {
    arguments.push_back(absl::StrCat("-I", include));
    allowed.push_back(include);
  }
  arguments.emplace_back(kSourceName);
  KC_ASSIGN_OR_RETURN(
      const CompilerStep compiled,
      Run(toolchain_.compiler, arguments, folder.path(), Evidence::kDiagnostic, cancel));
  // The output of a stopped compiler is incomplete and says nothing.
  if (compiled.limit) return RefusedCompile(CompileStage::kLimit, compiled.LastLine());
  const auto dependencies = folder.Read(kDependencyName);
  if (auto problem = CheckDependencies(dependencies.value_or(""), kSourceName, allowed)) {
    return RefusedCompile(CompileStage::kAdmission, *problem);
  }
  if (!compiled.ok) {
    return RefusedCompile(CompileStage::kCompiler,
                          std::string(TruncateUtf8(
                              compiled.log, static_cast<size_t>(options_.limits.max_log_bytes))));
  }
  const auto assembly = folder.Read(kAssemblyName);
  if (!assembly) {
    return absl::UnavailableError(absl::StrCat("the compiler left no ", kAssemblyName));
  }
  const auto text = CanonicalAssembly(*assembly);
  if (!text.ok()) {
    return RefusedCompile(CompileStage::kAdmission, std::string(text.status().message()));
  }
  const std::string& assembler = toolchain_.assembler;
  std::vector<std::string> assemble = {kAssemblyName, "-o", kRelocatableName};
  if (assembler.empty()) {
    assemble.insert(assemble.begin(), {"-c", "-Wa,--noexecstack"});
  } else {
    assemble.insert(assemble.begin(), {"--64", "--noexecstack"});
  }
  KC_ASSIGN_OR_RETURN(
      const CompilerStep assembled,
      Run(assembler.empty() ? toolchain_.compiler : assembler, assemble, folder.path(),
          assembler.empty() ? Evidence::kDiagnostic : Evidence::kExitCode, cancel));
  if (!assembled.ok) {
    return RefusedCompile(assembled.limit ? CompileStage::kLimit : CompileStage::kCompiler,
                          assembled.log);
  }
  const auto assembled_object = folder.Read(kRelocatableName);
  if (!assembled_object) {
    return absl::UnavailableError(absl::StrCat("the assembler left no ", kRelocatableName));
  }
  const auto relocatable = ReadRelocatable(*assembled_object);
  if (!relocatable.ok()) {
    return RefusedCompile(CompileStage::kAdmission, std::string(relocatable.status().message()));
  }

  // The candidate's flags are not passed here: with -ffast-math the driver would link code that
  // changes the rounding mode of the whole process.
  std::vector<std::string> link = LinkArguments({kRelocatableName, "-o", kObjectName, "-lm"});
  if (!relocatable->needs_cxx_library) {
    link.insert(link.end(), {"-nodefaultlibs", "-lc", "-lgcc", "-lgcc_s"});
  }
  KC_ASSIGN_OR_RETURN(const CompilerStep linked,
                      Run(toolchain_.compiler, link, folder.path(), Evidence::kExitCode, cancel));
  if (!linked.ok) {
    return RefusedCompile(linked.limit ? CompileStage::kLimit : CompileStage::kLinker, linked.log);
  }
  const auto content = folder.Read(kObjectName);
  if (!content) {
    return absl::UnavailableError(absl::StrCat("the linker left no ", kObjectName));
  }
  const auto object = PrepareObject(*content);
  if (!object.ok()) {
    return RefusedCompile(CompileStage::kAdmission, std::string(object.status().message()));
  }

  CompileSuccess success;
  success.facts = ExtractAssemblyFacts(*text, object->text_bytes);
  success.artifact.artifact_id = ArtifactId(source, flags);
  success.artifact.format = ArtifactFormat::kSharedObject;
  success.artifact.architecture = toolchain_.architecture;
  success.artifact.toolchain = toolchain_.description;
  success.artifact.content = *content;
  success.log =
      std::string(TruncateUtf8(compiled.log, static_cast<size_t>(options_.max_warning_bytes)));
  CompileResult result;
  result.result = std::move(success);
  return result;
}

}  // namespace kernelcast::worker
