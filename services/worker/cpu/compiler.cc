#include "services/worker/cpu/compiler.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/hash.h"
#include "common/base/status.h"
#include "common/base/utf8.h"
#include "common/process/child_process.h"
#include "services/worker/core/source_scan.h"
#include "services/worker/cpu/admission.h"
#include "services/worker/cpu/assembly_facts.h"
#include "services/worker/cpu/placement.h"
#include "services/worker/cpu/shared_object.h"

namespace kernelcast::worker {
namespace {

constexpr std::string_view kAllowedHeaders = "headers of the toolchain and kernelcast/candidate.h";
constexpr const char* kSourceName = "kernel.cc";
constexpr const char* kAssemblyName = "kernel.s";
constexpr const char* kDependencyName = "kernel.d";
constexpr const char* kObjectName = "kernel.so";
constexpr int64_t kPollNs = 1'000'000;
// Exit code of the driver when the compiler proper was ended by a signal.
constexpr int kDriverSawSignal = 4;

// A folder that is removed with all its files at the end of the scope.
class WorkFolder {
 public:
  static absl::StatusOr<WorkFolder> Make(const std::string& parent) {
    std::string path = absl::StrCat(parent, "/compile-XXXXXX");
    if (mkdtemp(path.data()) == nullptr) {
      return absl::UnavailableError(
          absl::StrCat("cannot make a folder in ", parent, ": ", std::strerror(errno)));
    }
    return WorkFolder(path);
  }
  ~WorkFolder() {
    if (!path_.empty()) {
      std::error_code ignored;
      std::filesystem::remove_all(path_, ignored);
    }
  }
  WorkFolder(WorkFolder&& other) noexcept : path_(std::move(other.path_)) { other.path_.clear(); }
  WorkFolder& operator=(WorkFolder&&) = delete;

  const std::string& path() const { return path_; }

 private:
  explicit WorkFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

std::optional<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return std::nullopt;
  }
  std::ostringstream content;
  content << file.rdbuf();
  return std::move(content).str();
}

CompileResult Refused(CompileStage stage, std::string log) {
  CompileResult result;
  result.result = CompileError{stage, std::move(log)};
  return result;
}

}  // namespace

struct CpuCompiler::Step {
  bool ok = false;
  bool limit = false;
  std::string log;
};

std::string CpuCompiler::ArtifactId(const std::string& source,
                                    const std::vector<std::string>& flags) const {
  ContentHasher hasher;
  hasher.Add("cpu artifact 1").Add(toolchain_.description).Add(toolchain_.architecture).Add(source);
  hasher.Add(flags.size());
  for (const std::string& flag : flags) {
    hasher.Add(flag);
  }
  return absl::StrCat("a_", hasher.Hex128());
}

absl::StatusOr<CpuCompiler::Step> CpuCompiler::Run(const std::vector<std::string>& arguments,
                                                   const std::string& directory,
                                                   const CancelToken& cancel) const {
  ChildOptions child;
  child.argv = {toolchain_.compiler};
  child.argv.insert(child.argv.end(), arguments.begin(), arguments.end());
  child.environment = CompilerEnvironment(directory);
  child.working_directory = directory;
  child.max_output_bytes = 8 << 20;
  child.kept_output_bytes = options_.max_log_bytes;
  child.max_address_space_bytes = options_.max_memory_bytes;
  child.max_cpu_seconds = options_.timeout_ns / 1'000'000'000 + 1;
  child.max_file_bytes = options_.max_file_bytes;
  auto spawned = ChildProcess::Spawn(child);
  if (!spawned.ok()) {
    return absl::UnavailableError(spawned.status().message());
  }
  ChildProcess& process = **spawned;
  setpriority(PRIO_PROCESS, static_cast<id_t>(process.pid()), kCompileNice);

  const int64_t deadline_ns = Clock::Real().MonotonicNs() + options_.timeout_ns;
  while (!process.Poll()) {
    KC_RETURN_IF_ERROR(cancel.Check());
    if (Clock::Real().MonotonicNs() > deadline_ns) {
      break;
    }
    cancel.SleepFor(kPollNs);
  }
  const ChildExit exit = process.Wait(0);
  Step step;
  step.ok = exit.exited && exit.exit_code == 0;
  step.log = exit.output;
  if (exit.timed_out) {
    step.limit = true;
    absl::StrAppend(&step.log, "\nstopped: the compiler ran for more than ",
                    options_.timeout_ns / 1'000'000'000, " s");
  } else if (exit.output_limit) {
    step.limit = true;
    absl::StrAppend(&step.log, "\nstopped: the compiler printed too much");
  } else if (!step.ok && (exit.signal != 0 || exit.exit_code == kDriverSawSignal ||
                          exit.max_resident_bytes > options_.max_memory_bytes / 2)) {
    step.limit = true;
    absl::StrAppend(&step.log, "\nstopped: the compiler exceeded its memory, file or time limit");
  }
  return step;
}

absl::StatusOr<CompileResult> CpuCompiler::Compile(const std::string& source,
                                                   const std::vector<std::string>& flags,
                                                   const CancelToken& cancel) const {
  KC_RETURN_IF_ERROR(cancel.Check());
  if (auto problem = CheckFlags(flags)) {
    return Refused(CompileStage::kAdmission, *problem);
  }
  if (auto problem = CheckIncludeDirectives(source, kAllowedHeaders)) {
    return Refused(CompileStage::kAdmission, *problem);
  }
  const int64_t start_ns = Clock::Real().MonotonicNs();
  KC_ASSIGN_OR_RETURN(const WorkFolder folder, WorkFolder::Make(options_.work_directory));
  auto result = CompileIn(folder.path(), source, flags, cancel);
  if (result.ok()) {
    result->compile_ns = Clock::Real().MonotonicNs() - start_ns;
  }
  return result;
}

absl::StatusOr<CompileResult> CpuCompiler::CompileIn(const std::string& directory,
                                                     const std::string& source,
                                                     const std::vector<std::string>& flags,
                                                     const CancelToken& cancel) const {
  const auto path = [&directory](const char* name) { return absl::StrCat(directory, "/", name); };
  {
    std::ofstream file(path(kSourceName), std::ios::binary);
    file << source;
    file.close();
    if (!file) {
      return absl::UnavailableError(absl::StrCat("cannot write to ", directory));
    }
  }

  std::vector<std::string> arguments = BaseFlags();
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  for (const char* argument : {"-S", "-MD", "-MF", kDependencyName, "-fdiagnostics-color=never",
                               "-fmax-errors=20", "-o", kAssemblyName}) {
    arguments.emplace_back(argument);
  }
  std::vector<std::string> allowed = toolchain_.include_directories;
  for (const std::string& folder : options_.include_directories) {
    arguments.push_back(absl::StrCat("-I", folder));
    allowed.push_back(folder);
  }
  arguments.emplace_back(kSourceName);
  KC_ASSIGN_OR_RETURN(const Step compiled, Run(arguments, directory, cancel));
  const auto dependencies = ReadFile(path(kDependencyName));
  if (auto problem = CheckDependencies(dependencies.value_or(""), kSourceName, allowed)) {
    return Refused(CompileStage::kAdmission, *problem);
  }
  if (!compiled.ok) {
    return Refused(
        compiled.limit ? CompileStage::kLimit : CompileStage::kCompiler,
        std::string(TruncateUtf8(compiled.log, static_cast<size_t>(options_.max_log_bytes))));
  }
  const auto assembly = ReadFile(path(kAssemblyName));
  if (!assembly) {
    return absl::UnavailableError(absl::StrCat("the compiler left no ", kAssemblyName));
  }
  if (auto problem = CheckAssembly(*assembly)) {
    return Refused(CompileStage::kAdmission, *problem);
  }

  // The flags are left out on purpose: with -ffast-math the driver would link code that changes the
  // rounding of the whole process.
  KC_ASSIGN_OR_RETURN(const Step linked,
                      Run({"-shared", "-Wl,-z,defs", "-Wl,-z,now", "-Wl,--as-needed", kAssemblyName,
                           "-o", kObjectName, "-lm"},
                          directory, cancel));
  if (!linked.ok) {
    return Refused(linked.limit ? CompileStage::kLimit : CompileStage::kLinker, linked.log);
  }
  const auto content = ReadFile(path(kObjectName));
  if (!content) {
    return absl::UnavailableError(absl::StrCat("the linker left no ", kObjectName));
  }
  const auto object = PrepareObject(*content);
  if (!object.ok()) {
    return Refused(CompileStage::kAdmission, std::string(object.status().message()));
  }

  CompileSuccess success;
  success.facts = ExtractAssemblyFacts(*assembly, object->text_bytes);
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
