#include "services/cli/commands/problem_argument.h"

#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/file.h"
#include "common/base/status.h"
#include "common/convert/convert.h"
#include "common/domain/python_task.h"
#include "common/domain/task_files.h"
#include "common/domain/text.h"
#include "services/cli/core/paths.h"
#include "services/cli/core/text.h"
#include "services/cli/core/yaml_hint.h"

namespace kernelcast::cli {

namespace {

constexpr int64_t kMaxHintedBytes = 1 << 20;

// The parser knows neither the folder nor the devices there are.
absl::Status CheckNames(const Problem& problem, const std::string& folder) {
  if (IsTaskPath(folder)) return absl::OkStatus();
  std::error_code error;
  // Without the slash at its end, which a folder may have.
  const std::string name = std::filesystem::canonical(folder, error).filename().string();
  if (!error && problem.name != name) {
    return absl::InvalidArgumentError(absl::StrCat("problem.yaml: name: ", Quoted(problem.name),
                                                   " is not the name of the folder, ",
                                                   Quoted(name)));
  }
  for (const auto& [target, unused] : problem.targets) {
    if (target == kCpuTargetName || target == kCudaTargetName) continue;
    return absl::InvalidArgumentError(absl::StrCat("problem.yaml: targets: ", Quoted(target),
                                                   " is no target; there are: cpu, cuda"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<LoadedProblem> LoadProblemFolder(const std::string& folder) {
  LoadedProblem loaded;
  loaded.folder = folder;
  absl::StatusOr<std::vector<ProblemFile>> files = ReadProblemFolder(folder);
  absl::Status status = files.status();
  if (files.ok()) {
    absl::StatusOr<Problem> problem = ParseProblem(*std::move(files));
    status = problem.ok() ? CheckNames(*problem, folder) : problem.status();
    if (status.ok()) {
      loaded.problem = *std::move(problem);
      return loaded;
    }
  }
  // Messages name files relative to the folder.
  std::string message(status.message());
  if (const int line = LineInMessage(message, "problem.yaml"); line > 0) {
    const absl::StatusOr<std::string> text = ReadFile(folder + "/problem.yaml", kMaxHintedBytes);
    const std::string hint = text.ok() ? YamlHint(*text, line) : std::string();
    if (!hint.empty()) absl::StrAppend(&message, "; ", hint);
  }
  if (IsTaskPath(folder)) return absl::Status(status.code(), message);
  if (message.find(folder) == std::string::npos) message = absl::StrCat(folder, "/", message);
  return absl::Status(status.code(), message);
}

absl::StatusOr<LoadedProblem> LoadProblem(const Context& context, const std::string& argument) {
  const auto named = context.named_problems.find(argument);
  if (named != context.named_problems.end()) return LoadProblemFolder(named->second);
  KC_ASSIGN_OR_RETURN(
      const std::string folder,
      FindProblemFolder(argument, ProblemFolders(context.environment, context.program_folder)));
  return LoadProblemFolder(folder);
}

absl::StatusOr<LoadedProblem> LoadProblem(const Context& context, const std::string& argument,
                                          const TaskOptions& options) {
  KC_ASSIGN_OR_RETURN(LoadedProblem loaded, LoadProblem(context, argument));
  if (options.baseline.empty() && options.rules.empty()) return loaded;
  KC_ASSIGN_OR_RETURN(loaded.problem,
                      WithPrefix(options.rules.empty() ? "--baseline: " : "--task-rules-only: ",
                                 WithOptions(loaded.problem, options)));
  return loaded;
}

void AddProblemsOption(CLI::App& app, std::vector<std::string>& problems) {
  app.add_option("--problem", problems,
                 "Folder or task of a problem that is not found by its name; may be repeated")
      ->allow_extra_args(false)
      ->type_name("PROBLEM");
}

absl::Status NameProblems(Context& context, const std::vector<std::string>& problems) {
  for (const std::string& problem : problems) {
    KC_ASSIGN_OR_RETURN(LoadedProblem loaded, LoadProblem(context, problem));
    context.named_problems.insert_or_assign(loaded.problem.name, std::move(loaded.folder));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ChooseTarget(const Problem& problem, const std::string& asked) {
  if (asked.empty()) return DefaultTarget(problem);
  if (problem.targets.find(asked) != problem.targets.end()) return asked;
  std::vector<std::string> known;
  for (const auto& [name, unused] : problem.targets) known.push_back(name);
  return absl::InvalidArgumentError(absl::StrCat("--target: ", problem.name,
                                                 " has no reference for '", OneLine(asked),
                                                 "'; it has: ", Join(known, ", ")));
}

v1::PutProblemRequest PutRequest(const Problem& problem) {
  v1::PutProblemRequest put;
  *put.mutable_problem() = ProblemFilesToProto(problem);
  return put;
}

bool TakeDefaultTarget(Console& console, const std::string& asked, const v1::PutProblemReply& reply,
                       std::string& target) {
  const std::string& answered = reply.default_target();
  if (!asked.empty() || answered.empty()) return false;
  if (!reply.task_gpus().empty()) {
    console.Note(absl::StrCat("target ", OneLine(answered), " (",
                              OneLine(absl::StrJoin(reply.task_gpus(), ", ")),
                              "); --target cpu judges on the processor"));
  }
  return std::exchange(target, answered) != answered;
}

uint64_t SpacePoints(const Problem& problem, const std::string& target) {
  const auto found = problem.targets.find(target);
  if (found == problem.targets.end() || !found->second.space.has_value()) return 0;
  return EnumeratePoints(*found->second.space).size();
}

void AddProblemArgument(CLI::App& app, std::string& problem) {
  app.add_option("PROBLEM", problem,
                 "A problem's folder, a task of KernelBench (FILE.py), flashinfer-bench "
                 "(DEFINITION.json), SOL-ExecBench or GPU MODE (a folder), or a problem's name in "
                 "$KERNELCAST_PROBLEMS, ./examples/problems or the installed problems")
      ->required();
}

void AddTaskOptions(CLI::App& app, TaskOptions& options) {
  app.add_option("--baseline", options.baseline,
                 "Baseline of a PyTorch task. compile: also compare with the reference under "
                 "torch.compile [eager]")
      ->check(CLI::IsMember({std::string(kEagerBaseline), std::string(kCompiledBaseline)}));
  app.add_flag_callback(
      "--task-rules-only", [&options] { options.rules = kTaskRules; },
      "Judge outputs of a PyTorch task by the rule of its format alone");
}

void AddTargetOption(CLI::App& app, std::string& target) {
  app.add_option("--target", target,
                 "Target of the candidates [cuda for a PyTorch task where a worker judges it on a "
                 "GPU; otherwise cpu, or else the problem's first]");
}

}  // namespace kernelcast::cli
