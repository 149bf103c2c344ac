#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/domain/expected_verdicts.h"
#include "services/cli/commands/context.h"
#include "services/cli/commands/problem_argument.h"
#include "services/cli/core/table.h"

namespace kernelcast::cli {
namespace {

struct ProblemsFlags {
  std::string folder;
  bool names = false;
};

std::string AxisText(const Problem& problem) {
  std::string text;
  const auto add = [&](const std::string& name) {
    absl::StrAppend(&text, text.empty() ? "" : " ", name);
  };
  for (const Axis& axis : problem.axes) add(axis.name);
  if (!problem.task) return text;
  for (const auto& [name, size] : problem.bench_shapes.front()) add(name);
  return text;
}

// Also checks the expected verdicts of its spaces, which are not part of the problem.
absl::StatusOr<LoadedProblem> LoadAndCheck(const std::string& folder) {
  KC_ASSIGN_OR_RETURN(LoadedProblem loaded, LoadProblemFolder(folder));
  for (const auto& [unused, target] : loaded.problem.targets) {
    if (!target.space) continue;
    KC_RETURN_IF_ERROR(WithPrefix(absl::StrCat(folder, "/"),
                                  ReadExpectedVerdicts(folder, *target.space).status()));
  }
  return loaded;
}

absl::StatusOr<ExitCode> RunProblems(Context& context, const ProblemsFlags& flags) {
  Console& console = context.console;
  std::vector<std::string> folders;
  if (flags.folder.empty()) {
    folders = ProblemFolders(context.environment, context.program_folder);
  } else {
    folders = {flags.folder};
  }
  // The first folder that has a name wins.
  std::map<std::string, std::string> found;
  for (const std::string& folder : folders) {
    for (const std::string& name : ListProblems(folder))
      found.emplace(name, absl::StrCat(folder, "/", name));
  }
  if (found.empty() && !flags.folder.empty()) {
    KC_ASSIGN_OR_RETURN(const std::string single,
                        FindProblemFolder(flags.folder, ProblemFolders(context.environment,
                                                                       context.program_folder)));
    found.emplace(single, single);
  }
  if (flags.names) {
    for (const auto& [name, folder] : found) console.Out(name + "\n");
    return ExitCode::kOk;
  }
  if (found.empty()) {
    return absl::NotFoundError(absl::StrCat("no problems in ", Join(folders, ", "),
                                            "; KERNELCAST_PROBLEMS may name other folders"));
  }
  Table table({{"problem"},
               {"title", Table::Align::kLeft, true},
               {"family"},
               {"axes"},
               {"shapes", Table::Align::kRight},
               {"space"}});
  std::string mistakes;
  bool all_good = true;
  for (const auto& [name, folder] : found) {
    const absl::StatusOr<LoadedProblem> loaded = LoadAndCheck(folder);
    if (!loaded.ok()) {
      all_good = false;
      table.AddRow({OneLine(name), console.style().Red("malformed")});
      absl::StrAppend(&mistakes, console.style().Red("malformed: "),
                      ForTerminal(std::string(loaded.status().message())), "\n");
      console.Line({{"name", name},
                    {"folder", folder},
                    {"valid", false},
                    {"error", ErrorJson(loaded.status())}});
      continue;
    }
    const Problem& problem = loaded->problem;
    std::string space;
    Json targets = Json::object();
    for (const auto& [target, unused] : problem.targets) {
      const uint64_t points = SpacePoints(problem, target);
      size_t templates = 0;
      if (problem.targets.at(target).space.has_value()) {
        templates = problem.targets.at(target).space->templates.size();
      }
      absl::StrAppend(
          &space, space.empty() ? "" : ", ", target, ": ",
          points == 0 ? std::string("no space")
                      : absl::StrCat(FormatCount(points), " points, ", templates, " templates"));
      targets[target] = {{"space_points", points}, {"templates", templates}};
    }
    table.AddRow({OneLine(name), OneLine(problem.title), OneLine(problem.family), AxisText(problem),
                  absl::StrCat(problem.check_shapes.size(), " + ", problem.bench_shapes.size()),
                  space});
    Json axes = Json::array();
    for (const Axis& axis : problem.axes) {
      axes.push_back({{"name", axis.name},
                      {"held_out", {axis.held_out_low, axis.held_out_high}},
                      {"multiple_of", axis.multiple_of}});
    }
    console.Line({{"name", name},
                  {"folder", folder},
                  {"valid", true},
                  {"problem_id", problem.problem_id},
                  {"title", problem.title},
                  {"family", problem.family},
                  {"axes", axes},
                  {"check_shapes", problem.check_shapes.size()},
                  {"bench_shapes", problem.bench_shapes.size()},
                  {"targets", targets}});
  }
  console.Out(table.Render(console.style(), console.width()));
  if (!mistakes.empty()) console.Out("\n" + mistakes);
  return all_good ? ExitCode::kOk : ExitCode::kNegative;
}

}  // namespace

void AddProblemsCommand(CLI::App& app, Context& context) {
  const auto flags = std::make_shared<ProblemsFlags>();
  CLI::App* problems = AddCommand(app, context, "problems", "List and check problems",
                                  [&context, flags] { return RunProblems(context, *flags); });
  problems->add_option(
      "DIR", flags->folder,
      "A folder of problems, or one problem by its folder or name [all that have a name]");
  problems->add_flag("--names", flags->names, "Print only names, without checking");
}

}  // namespace kernelcast::cli
