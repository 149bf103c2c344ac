// compare: what changed between two suites, searches or kernels.

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/id.h"
#include "common/base/status.h"
#include "common/config/number_flags.h"
#include "common/convert/convert.h"
#include "common/domain/candidate_kind.h"
#include "common/domain/text.h"
#include "services/cli/commands/compared_sides.h"
#include "services/cli/commands/connection.h"
#include "services/cli/commands/context.h"
#include "services/cli/commands/problem_argument.h"
#include "services/cli/core/candidate_files.h"
#include "services/cli/core/paths.h"
#include "services/cli/report/comparison.h"
#include "services/cli/rpc/evaluate_stream.h"
#include "services/cli/rpc/suite_file.h"

namespace kernelcast::cli {
namespace {

namespace fs = std::filesystem;

struct CompareFlags {
  ConnectionFlags connection;
  std::string before;
  std::string after;
  std::string problem;
  TaskOptions task_options;
  std::string target;
  std::string device_model;
  double least_change_percent = 0;
  bool all = false;
};

bool IsKernelFile(const std::string& path) {
  std::error_code error;
  return KindOfFile(fs::path(path).extension().string()).has_value() &&
         fs::is_regular_file(path, error);
}

// Measures two sources at the final level.
absl::StatusOr<std::pair<ComparedSide, ComparedSide>> SidesOfSources(Context& context,
                                                                     const CompareFlags& flags) {
  if (flags.problem.empty()) {
    return absl::InvalidArgumentError("--problem is required to compare sources of kernels");
  }
  KC_ASSIGN_OR_RETURN(const LoadedProblem loaded,
                      LoadProblem(context, flags.problem, flags.task_options));
  KC_ASSIGN_OR_RETURN(std::string target, ChooseTarget(loaded.problem, flags.target));
  Connection connection(context, flags.connection, Needs::kOrchestrator);
  KC_ASSIGN_OR_RETURN(const v1::PutProblemReply known, connection.PutProblem(loaded.problem));
  TakeDefaultTarget(context.console, flags.target, known, target);
  KC_RETURN_IF_ERROR(connection.CheckMeasures(target));
  const std::string batch = RandomId("e_");
  std::vector<v1::EvaluateRequest> requests;
  std::map<std::string, ComparedSide> sides;
  for (const std::string& path : {flags.before, flags.after}) {
    KC_ASSIGN_OR_RETURN(const std::vector<NamedCandidate> candidates,
                        ReadCandidates(path, loaded.problem.problem_id, target));
    v1::EvaluateRequest& request = requests.emplace_back();
    request.set_request_id(absl::StrCat(batch, "/", requests.size()));
    *request.mutable_candidate() = ToProto(candidates.front().candidate);
    request.set_mode(v1::EVALUATE_MODE_FINAL);
    if (!flags.device_model.empty()) request.add_device_models(flags.device_model);
    sides[request.request_id()].title = absl::StrCat("source ", path);
  }
  EvaluateOptions options;
  options.cancelled = [&context] { return context.interrupt.requested(); };
  options.reconnect = [&connection] { return connection.Orchestrator(); };
  absl::Status broken;
  KC_RETURN_IF_ERROR(EvaluateAll(requests, options, [&](const v1::EvaluateReply& reply) {
    ComparedSide& side = sides.at(reply.request_id());
    SuiteRow row;
    row.task = loaded.problem.name;
    if (reply.has_error()) {
      row.error = absl::Status(static_cast<absl::StatusCode>(reply.error().code()),
                               reply.error().message());
    } else if (const absl::Status read = TakeEvaluation(reply.evaluation(), row); !read.ok()) {
      broken = read;
    }
    side.best.emplace(loaded.problem.problem_id, row);
    side.rows.push_back(std::move(row));
    CountRows(side);
  }));
  KC_RETURN_IF_ERROR(broken);
  return std::pair(std::move(sides.at(requests[0].request_id())),
                   std::move(sides.at(requests[1].request_id())));
}

// A suite's results, also by the folder of its tasks, records, a kernel or a search.
absl::StatusOr<ComparedSide> SideOf(Context& context, Connection& connection,
                                    const CompareFlags& flags, const std::string& given) {
  std::error_code error;
  if (IsSuiteResults(given)) return SideOfSuite(given);
  if (fs::is_directory(given, error)) {
    KC_ASSIGN_OR_RETURN(const std::string state_dir, StateDir(context, flags.connection));
    const std::string results =
        absl::StrCat(state_dir, "/suites/", FileNameFor(fs::canonical(given, error).string()));
    if (IsSuiteResults(results)) return SideOfSuite(results);
    return absl::NotFoundError(
        absl::StrCat(Quoted(given, 255), " has no results; `kernelcast suite` makes them"));
  }
  if (fs::is_regular_file(given, error)) return SideOfRecords(given);
  if (given.starts_with("k_")) return SideOfKernel(connection, given);
  return SideOfSearch(context, connection, given);
}

absl::StatusOr<ExitCode> RunCompare(Context& context, const CompareFlags& flags) {
  ComparedSide before;
  ComparedSide after;
  if (IsKernelFile(flags.before) && IsKernelFile(flags.after)) {
    KC_ASSIGN_OR_RETURN(std::tie(before, after), SidesOfSources(context, flags));
  } else {
    Connection connection(context, flags.connection, Needs::kLog);
    KC_ASSIGN_OR_RETURN(before, SideOf(context, connection, flags, flags.before));
    KC_ASSIGN_OR_RETURN(after, SideOf(context, connection, flags, flags.after));
  }
  const RunComparison comparison = CompareRuns(before, after, flags.least_change_percent / 100);
  if (comparison.pairs.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(before.title, " and ", after.title,
                     " have no task in common: there is nothing to compare"));
  }
  Console& console = context.console;
  console.Out(
      ComparisonText(before, after, comparison, flags.all, console.style(), console.width()));
  console.Line(ComparisonJson(before, after, comparison));
  return comparison.worse ? ExitCode::kNegative : ExitCode::kOk;
}

}  // namespace

void AddCompareCommand(CLI::App& app, Context& context) {
  const auto flags = std::make_shared<CompareFlags>();
  CLI::App* compare = AddCommand(app, context, "compare",
                                 "Compare two suites, searches or kernels; the exit code is 1 if "
                                 "the second is slower beyond noise, or a verdict got worse",
                                 [&context, flags] { return RunCompare(context, *flags); });
  const std::string what =
      "A suite's folder, a file of exported records, a search, a kernel by its id, or a source "
      "with --problem";
  compare->add_option("BEFORE", flags->before, what)->required();
  compare->add_option("AFTER", flags->after, "The same")->required();
  compare
      ->add_option("--least-change", flags->least_change_percent,
                   "Changes of speed by less than this many percent do not count")
      ->check(NumberFrom(0, 1000))
      ->capture_default_str()
      ->type_name("PERCENT");
  compare->add_flag("--all", flags->all, "Also list what did not change");
  compare->add_option("--problem", flags->problem, "The problem of two sources")
      ->type_name("PROBLEM");
  AddTargetOption(*compare, flags->target);
  AddTaskOptions(*compare, flags->task_options);
  compare
      ->add_option("--device-model", flags->device_model,
                   "Measure two sources on this device model [chosen by the orchestrator]")
      ->type_name("MODEL");
  AddConnectionFlags(*compare, flags->connection, Needs::kOrchestrator);
}

}  // namespace kernelcast::cli
