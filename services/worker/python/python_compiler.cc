#include "services/worker/python/python_compiler.h"

#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/base/clock.h"
#include "common/base/hash.h"
#include "common/base/status.h"
#include "common/base/utf8.h"
#include "common/domain/python_task.h"
#include "services/worker/native/toolchain.h"

namespace kernelcast::worker {
namespace {

constexpr const char* kCandidateFile = "candidate.py";
// Exit codes of source_check.py.
constexpr int kRefused = 3;
constexpr int kNoMemory = 4;
constexpr int kTaskOnly = 5;
constexpr int kAttempts = 2;

// Facts of the schema python-source/1.
CompileFacts CountPythonSource(std::string_view source) {
  double lines = 0;
  double functions = 0;
  double loops = 0;
  const std::string text(source);
  for (const auto part : absl::StrSplit(text, '\n')) {
    const auto line = absl::StripAsciiWhitespace(part);
    if (line.empty()) continue;
    ++lines;
    if (absl::StartsWith(line, "def ")) ++functions;
    if (absl::StartsWith(line, "for ") || absl::StartsWith(line, "while ")) ++loops;
  }
  double uses = 0;
  for (const std::string_view prefix : {"torch.", "F."}) {
    for (size_t at = source.find(prefix); at != std::string_view::npos;
         at = source.find(prefix, at + 1)) {
      ++uses;
    }
  }
  return {.schema = std::string(kPythonSourceSchemaId),
          .values = {lines, static_cast<double>(source.size()), functions, loops, uses}};
}

}  // namespace

PythonCompiler::PythonCompiler(PythonInterpreter python, CompilerSandbox sandbox,
                               std::string work_directory, bool builds_sources)
    : python_(std::move(python)),
      sandbox_(std::move(sandbox)),
      work_directory_(std::move(work_directory)),
      builds_sources_(builds_sources),
      toolchain_(
          absl::StrCat("PyTorch ", python_.package_version, "; Python ", python_.python_version)) {
  sandbox_.read_only = python_.read_only;
}

std::string PythonCompiler::ArtifactId(const std::string& source) const {
  ContentHasher hasher;
  hasher.Add("python artifact 2").Add(toolchain_).Add(source);
  return absl::StrCat("a_", hasher.Hex128());
}

void PythonCompiler::RefuseTasks(const Problem& problem, const Candidate& candidate,
                                 CompileResult& result) {
  const auto* const success = std::get_if<CompileSuccess>(&result.result);
  if (success == nullptr || success->log.empty() || candidate.source == problem.task->source) {
    return;
  }
  result.result = CompileError{CompileStage::kCompiler, success->log};
}

absl::StatusOr<CompileResult> PythonCompiler::Compile(const PythonTask& task,
                                                      const std::string& architecture,
                                                      const std::string& source,
                                                      const CancelToken& cancel) const {
  KC_RETURN_IF_ERROR(cancel.Check());
  const int64_t start_ns = Clock::Real().MonotonicNs();
  KC_ASSIGN_OR_RETURN(const WorkFolder folder, WorkFolder::Make(work_directory_, sandbox_.uid));
  KC_RETURN_IF_ERROR(folder.Write(kCandidateFile, source));
  // A task's reference is also compiled, and its artefact does not depend on the task.
  const std::vector<std::string> argv = {python_.program,
                                         "-I",
                                         "-S",
                                         "-c",
                                         kPythonSourceCheck,
                                         kCandidateFile,
                                         builds_sources_ ? "builds" : "",
                                         absl::StrJoin(task.entries, ","),
                                         std::string(ReferenceName(task.format))};
  CompilerStep checked;
  const auto answered = [&checked] {
    return checked.ok || checked.limit || checked.exit_code == kRefused ||
           checked.exit_code == kNoMemory || checked.exit_code == kTaskOnly;
  };
  for (int attempt = 0; attempt < kAttempts && !answered(); ++attempt) {
    KC_ASSIGN_OR_RETURN(checked, RunCompilerStep(sandbox_, argv, CompilerEnvironment(folder.path()),
                                                 folder.path(), CompilerLimits(), cancel));
  }
  if (!answered()) {
    return absl::UnavailableError(absl::StrCat(python_.program, " does not check sources here: ",
                                               checked.signal != 0
                                                   ? absl::StrCat("signal ", checked.signal)
                                                   : absl::StrCat("exit code ", checked.exit_code),
                                               " ", SanitizeUtf8(checked.log.substr(0, 500))));
  }
  CompileResult result;
  if (checked.ok || checked.exit_code == kTaskOnly) {
    CompileSuccess success;
    if (!checked.ok) success.log = std::move(checked.log);
    success.facts = CountPythonSource(source);
    success.artifact.artifact_id = ArtifactId(source);
    success.artifact.format = ArtifactFormat::kPythonSource;
    success.artifact.architecture = architecture;
    success.artifact.toolchain = toolchain_;
    success.artifact.content = source;
    result.result = std::move(success);
  } else {
    const bool limit = checked.limit || checked.exit_code == kNoMemory;
    result.result = CompileError{limit ? CompileStage::kLimit : CompileStage::kCompiler,
                                 std::move(checked.log)};
  }
  result.compile_ns = Clock::Real().MonotonicNs() - start_ns;
  return result;
}

}  // namespace kernelcast::worker
