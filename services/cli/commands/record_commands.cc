// report, searches and stop: commands on the orchestrator's records.

#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/base/version.h"
#include "common/convert/convert.h"
#include "common/rpc/status_conversion.h"
#include "services/cli/commands/connection.h"
#include "services/cli/commands/context.h"
#include "services/cli/commands/price_flags.h"
#include "services/cli/commands/reporting.h"
#include "services/cli/core/table.h"
#include "services/cli/report/analysis.h"
#include "services/cli/report/history.h"
#include "services/cli/report/search_json.h"
#include "services/cli/rpc/channel.h"
#include "services/cli/rpc/records.h"

namespace kernelcast::cli {
namespace {

struct ReportFlags {
  ConnectionFlags connection;
  std::string search_id;
  std::string records;
  std::string problem;
  std::string output;
  Prices prices;
};

absl::StatusOr<ReportInput> ReportFromRecords(Context& context, const ReportFlags& flags) {
  ReportInput input;
  input.generated_ns = Clock::Real().WallNs();
  input.generator_version = absl::StrCat("kernelcast ", std::string(Version()));
  std::set<std::string> problems;
  std::set<std::string> searches;
  std::string problem_id;
  std::map<std::string, std::string> problem_ids;  // by search
  KC_RETURN_IF_ERROR(
      ReadRecords(flags.records, [&](const v1::ExportRecord& record) -> absl::Status {
        searches.insert(record.evaluation().search_id());
        if (!flags.search_id.empty() && record.evaluation().search_id() != flags.search_id) {
          return absl::OkStatus();
        }
        if (!flags.problem.empty() && record.problem_name() != flags.problem) {
          problems.insert(record.problem_name());
          return absl::OkStatus();
        }
        problems.insert(record.problem_name());
        KC_ASSIGN_OR_RETURN(ReportCandidate candidate, ReportCandidateFromProto(record));
        const std::string& search_id = record.evaluation().search_id();
        const auto own = problem_ids.emplace(search_id, candidate.candidate.problem_id).first;
        // A search measures its finalists at held-out bench shapes, which make another problem.
        if (!search_id.empty() && own->second != candidate.candidate.problem_id) {
          return absl::OkStatus();
        }
        input.problem_name = record.problem_name();
        problem_id = candidate.candidate.problem_id;
        if (!candidate.candidate.target.empty()) input.target = candidate.candidate.target;
        input.candidates.push_back(std::move(candidate));
        return absl::OkStatus();
      }));
  const std::string known_problems =
      Join(std::vector<std::string>(problems.begin(), problems.end()), ", ");
  if (flags.problem.empty() && problems.size() > 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        flags.records, " holds several problems; choose one with --problem: ", known_problems));
  }
  if (input.candidates.empty() && !flags.problem.empty()) {
    return absl::NotFoundError(absl::StrCat(flags.records, " holds no record of the problem '",
                                            flags.problem, "'; it holds: ", known_problems));
  }
  if (input.candidates.empty() && !flags.search_id.empty()) {
    return absl::NotFoundError(absl::StrCat(
        flags.records, " holds no record of the search ", flags.search_id,
        "; it holds: ", Join(std::vector<std::string>(searches.begin(), searches.end()), ", ")));
  }
  AddProblemByName(context, input.problem_name, problem_id, input);
  return input;
}

// One report for each device model that the search ran on.
absl::StatusOr<std::vector<ReportInput>> ReportsFromOrchestrator(Context& context,
                                                                 const ReportFlags& flags) {
  Connection connection(context, flags.connection, Needs::kLog);
  std::vector<ReportInput> inputs;
  const auto fetch = [&](v1::Orchestrator::Stub& stub) -> absl::Status {
    v1::GetSearchRequest request;
    KC_ASSIGN_OR_RETURN(*request.mutable_search_id(), FindSearchId(stub, flags.search_id));
    request.set_include_archive(true);
    v1::GetSearchReply reply;
    KC_RETURN_IF_ERROR(Call(stub, &v1::Orchestrator::Stub::GetSearch, request, &reply));
    const std::vector<v1::Search> searches = SearchesIn(reply);
    if (!flags.output.empty()) KC_RETURN_IF_ERROR(RequireOneSearch("--output", searches));
    inputs.clear();
    for (const v1::Search& search : searches) {
      KC_ASSIGN_OR_RETURN(ReportInput input, FetchReport(context, stub, search, nullptr));
      inputs.push_back(std::move(input));
    }
    return absl::OkStatus();
  };
  KC_RETURN_IF_ERROR(connection.AskOrchestrator(fetch));
  return inputs;
}

// Writes the report and prints a summary.
absl::Status Conclude(Context& context, const ReportFlags& flags, ReportInput input,
                      const std::string& name) {
  input.prices = flags.prices;
  std::string output = flags.output;
  if (output.empty()) {
    KC_ASSIGN_OR_RETURN(const std::string state_dir, StateDir(context, flags.connection));
    output = DefaultReportPath(state_dir, name);
  }
  KC_RETURN_IF_ERROR(WriteReport(context.console, input, output));
  if (output == "-") return absl::OkStatus();
  const ReportAnalysis analysis = Analyze(input);
  context.console.Out(
      SummaryText(input, analysis, context.console.style(), context.console.width()));
  Json json = SummaryJson(input, analysis);
  json["report"] = output;
  context.console.Line(json);
  return absl::OkStatus();
}

absl::StatusOr<ExitCode> RunReport(Context& context, const ReportFlags& flags) {
  if (flags.search_id.empty() && flags.records.empty()) {
    return absl::InvalidArgumentError("say which search to report on, or --records FILE.jsonl");
  }
  if (!flags.records.empty()) {
    ReportFlags found = flags;
    if (!flags.search_id.empty()) {
      KC_ASSIGN_OR_RETURN(found.search_id, FindSearchIdInRecords({flags.records}, flags.search_id));
    }
    KC_ASSIGN_OR_RETURN(const ReportInput input, ReportFromRecords(context, found));
    KC_RETURN_IF_ERROR(Conclude(context, found, input,
                                found.search_id.empty() ? input.problem_name : found.search_id));
    return ExitCode::kOk;
  }
  KC_ASSIGN_OR_RETURN(const std::vector<ReportInput> inputs,
                      ReportsFromOrchestrator(context, flags));
  for (const ReportInput& input : inputs) {
    KC_RETURN_IF_ERROR(Conclude(context, flags, input, input.search->search_id()));
  }
  return ExitCode::kOk;
}

struct SearchesFlags {
  ConnectionFlags connection;
  std::string status = "any";
  bool ids = false;
};

absl::StatusOr<ExitCode> RunSearches(Context& context, const SearchesFlags& flags) {
  static const std::map<std::string, v1::SearchStatus> kStatuses = {
      {"any", v1::SEARCH_STATUS_UNSPECIFIED},
      {"running", v1::SEARCH_STATUS_RUNNING},
      {"finishing", v1::SEARCH_STATUS_FINISHING},
      {"done", v1::SEARCH_STATUS_DONE},
      {"failed", v1::SEARCH_STATUS_FAILED}};
  Console& console = context.console;
  Connection connection(context, flags.connection, Needs::kLog);
  Table table({{"search"},
               {"problem"},
               {"target"},
               {"device model", Table::Align::kLeft, true},
               {"status"},
               {"started"},
               {"considered", Table::Align::kRight},
               {"measured", Table::Align::kRight},
               {"best"},
               {"ended by", Table::Align::kLeft, true}});
  std::vector<v1::Search> searches;
  KC_RETURN_IF_ERROR(connection.AskOrchestrator([&](v1::Orchestrator::Stub& stub) -> absl::Status {
    KC_ASSIGN_OR_RETURN(searches, ListSearches(stub, kStatuses.at(flags.status)));
    return absl::OkStatus();
  }));
  if (flags.ids) {
    std::string ids;
    for (const v1::Search& search : searches) absl::StrAppend(&ids, search.search_id(), "\n");
    console.Out(ids);
    return ExitCode::kOk;
  }
  for (const v1::Search& search : searches) {
    const std::optional<Ratio> best = BestSpeedupOf(search);
    table.AddRow({search.search_id(), OneLine(search.problem_name()), search.spec().target(),
                  search.device_model().empty() ? "-" : OneLine(search.device_model()),
                  StatusName(search.status()), FormatUtc(ToNanoseconds(search.started_at())),
                  FormatCount(search.counts().considered()),
                  FormatCount(search.counts().measured()), best ? FormatSpeedup(*best) : "-",
                  search.has_waiting() ? absl::StrCat("waits: ", OneLine(search.waiting().reason()))
                                       : OneLine(search.end_reason())});
    console.Line(JsonOf(search));
  }
  if (table.empty()) {
    console.Out("no searches\n");
  } else {
    console.Out(table.Render(console.style(), console.width()));
  }
  return ExitCode::kOk;
}

struct StopFlags {
  ConnectionFlags connection;
  std::string search_id;
};

absl::StatusOr<ExitCode> RunStop(Context& context, const StopFlags& flags) {
  Connection connection(context, flags.connection, Needs::kOrchestrator);
  v1::StopSearchReply reply;
  KC_RETURN_IF_ERROR(connection.AskOrchestrator([&](v1::Orchestrator::Stub& stub) -> absl::Status {
    v1::StopSearchRequest request;
    KC_ASSIGN_OR_RETURN(*request.mutable_search_id(), FindSearchId(stub, flags.search_id));
    return Call(stub, &v1::Orchestrator::Stub::StopSearch, request, &reply);
  }));
  for (const v1::Search& search : SearchesIn(reply)) {
    context.console.Out(
        absl::StrCat(search.search_id(), " is ", StatusName(search.status()), "\n"));
    context.console.Line(JsonOf(search));
  }
  return ExitCode::kOk;
}

}  // namespace

void AddRecordCommands(CLI::App& app, Context& context) {
  const auto report_flags = std::make_shared<ReportFlags>();
  CLI::App* report =
      AddCommand(app, context, "report",
                 "Write the report of a search, or of exported records, as one HTML file",
                 [&context, report_flags] { return RunReport(context, *report_flags); });
  report->add_option("SEARCH_ID", report_flags->search_id,
                     "The search; one report for each of its device models");
  report
      ->add_option("--records", report_flags->records,
                   "Read these exported records instead of asking an orchestrator")
      ->type_name("FILE.jsonl");
  report->add_option("--problem", report_flags->problem, "Only records of this problem")
      ->type_name("NAME");
  report
      ->add_option("-o,--output", report_flags->output,
                   "Output file of the report; - is standard output [STATE/reports/SEARCH_ID.html]")
      ->type_name("FILE.html");
  AddPriceFlags(*report, report_flags->prices);
  AddConnectionFlags(*report, report_flags->connection, Needs::kLog);

  const auto searches_flags = std::make_shared<SearchesFlags>();
  CLI::App* searches =
      AddCommand(app, context, "searches", "List searches",
                 [&context, searches_flags] { return RunSearches(context, *searches_flags); });
  searches->add_option("--status", searches_flags->status, "Only searches in this state")
      ->check(CLI::IsMember({"any", "running", "finishing", "done", "failed"}))
      ->capture_default_str();
  searches->add_flag("--ids", searches_flags->ids, "Print only ids");
  AddConnectionFlags(*searches, searches_flags->connection, Needs::kLog);

  const auto stop_flags = std::make_shared<StopFlags>();
  CLI::App* stop =
      AddCommand(app, context, "stop", "Stop a search; candidates in flight are settled first",
                 [&context, stop_flags] { return RunStop(context, *stop_flags); });
  stop->add_option("SEARCH_ID", stop_flags->search_id,
                   "The search, on all of its device models; ID@MODEL is the one on MODEL")
      ->required();
  AddConnectionFlags(*stop, stop_flags->connection, Needs::kOrchestrator);
}

}  // namespace kernelcast::cli
