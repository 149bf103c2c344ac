#include "services/cli/commands/reporting.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/file.h"
#include "common/base/status.h"
#include "common/base/version.h"
#include "common/convert/convert.h"
#include "common/rpc/status_conversion.h"
#include "services/cli/core/paths.h"
#include "services/cli/core/table.h"
#include "services/cli/report/archive_table.h"
#include "services/cli/report/gate_text.h"
#include "services/cli/report/html.h"
#include "services/cli/report/learning.h"
#include "services/cli/report/search_cost.h"
#include "services/cli/report/tree_html.h"
#include "services/cli/rpc/channel.h"
#include "services/cli/rpc/records.h"

namespace kernelcast::cli {
namespace {

constexpr size_t kShownBest = 8;
// Candidates of the tree that are not folded, and its lines.
constexpr size_t kShownInTree = 10;
constexpr size_t kMaxTreeLines = 24;
constexpr int kMaxTreeWidth = 200;
constexpr absl::Duration kExportTimeout = absl::Minutes(10);

// Tokens of the search's requests for kernels and to critics so far, from its events.
absl::StatusOr<std::vector<ReportTokenSpend>> FetchTokenSpends(v1::Orchestrator::Stub& stub,
                                                               const v1::Search& search) {
  std::vector<ReportTokenSpend> spends;
  const v1::GenerationCounts& counts = search.counts().generation();
  const uint64_t total = counts.input_tokens() + counts.output_tokens();
  if (total == 0) return spends;
  grpc::ClientContext call;
  SetTimeout(call, kExportTimeout);
  v1::WatchSearchRequest request;
  request.set_search_id(search.search_id());
  const CancellableCall cancellable(call);
  const auto reader = stub.WatchSearch(&call, request);
  v1::SearchEvent event;
  uint64_t seen = 0;
  // The stream of a running search does not end by itself.
  while (seen < total && reader->Read(&event)) {
    uint64_t tokens = 0;
    if (event.has_generation()) {
      tokens = event.generation().input_tokens() + event.generation().output_tokens();
    } else if (event.has_advice()) {
      tokens = event.advice().input_tokens() + event.advice().output_tokens();
    }
    if (tokens > 0) spends.push_back({ToNanoseconds(event.time()), tokens});
    seen += tokens;
  }
  if (seen >= total) call.TryCancel();
  const grpc::Status finished = reader->Finish();
  if (seen < total) KC_RETURN_IF_ERROR(FromGrpc(finished, call));
  return spends;
}

}  // namespace

absl::StatusOr<ReportInput> FetchReport(const Context& context, v1::Orchestrator::Stub& stub,
                                        const v1::Search& search, const Problem* problem) {
  ReportInput input;
  input.problem_name = search.problem_name();
  input.target = search.spec().target();
  input.search = search;
  if (search.has_confirmed_best()) {
    KC_ASSIGN_OR_RETURN(input.confirmed, BestFromProto(search.confirmed_best()));
  }
  input.generated_ns = Clock::Real().WallNs();
  input.generator_version = absl::StrCat("kernelcast ", std::string(Version()));

  grpc::ClientContext call;
  SetTimeout(call, kExportTimeout);
  v1::ExportRequest request;
  request.set_search_id(search.search_id());
  request.set_include_sources(true);
  const CancellableCall cancellable(call);
  const std::unique_ptr<grpc::ClientReader<v1::ExportRecord>> reader = stub.Export(&call, request);
  v1::ExportRecord record;
  absl::Status broken;
  while (reader->Read(&record)) {
    absl::StatusOr<ReportCandidate> candidate = ReportCandidateFromProto(record);
    if (!candidate.ok()) {
      broken = candidate.status();
      call.TryCancel();
      break;
    }
    // A finalist at held-out bench shapes, which Finalist reports.
    if (candidate->candidate.problem_id != search.spec().problem_id()) continue;
    input.candidates.push_back(*std::move(candidate));
  }
  const grpc::Status finished = reader->Finish();
  KC_RETURN_IF_ERROR(broken);
  KC_RETURN_IF_ERROR(FromGrpc(finished, call));
  KC_ASSIGN_OR_RETURN(input.token_spends, FetchTokenSpends(stub, search));
  if (problem != nullptr) {
    AddProblem(*problem, input.target, input);
  } else {
    AddProblemByName(context, input.problem_name, search.spec().problem_id(), input);
  }
  return input;
}

void AddProblem(const Problem& problem, const std::string& target, ReportInput& input) {
  input.problem_name = problem.name;
  input.problem_title = problem.title;
  input.problem_description = problem.description;
  input.space_points = SpacePoints(problem, target);
  const auto found = problem.targets.find(target);
  if (found != problem.targets.end()) input.reference_source = found->second.reference.source;
}

void AddProblemByName(const Context& context, const std::string& name,
                      const std::string& problem_id, ReportInput& input) {
  if (name.empty()) return;
  const absl::StatusOr<LoadedProblem> loaded = LoadProblem(context, name);
  // A different version of the problem would not describe what was run.
  if (!loaded.ok() || loaded->problem.problem_id != problem_id) return;
  AddProblem(loaded->problem, input.target, input);
}

absl::Status WriteReport(Console& console, const ReportInput& input, const std::string& path) {
  const std::string page = RenderReport(input);
  KC_RETURN_IF_ERROR(WriteFileAtomically(path, page));
  if (path != "-") console.Note(absl::StrCat("report: ", path));
  return absl::OkStatus();
}

std::string DefaultReportPath(const std::string& state_dir, const std::string& name) {
  return absl::StrCat(state_dir, "/reports/", FileNameFor(name), ".html");
}

namespace {

std::string CountsText(const ReportCounts& counts, const Style& style) {
  std::string text;
  for (const auto& [name, count] :
       {std::pair("considered", counts.considered), std::pair("measured", counts.measured),
        std::pair("pruned", counts.pruned), std::pair("rejected", counts.rejected),
        std::pair("failed", counts.failures)}) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", style.Bold(FormatCount(count)), " ", name);
  }
  return text;
}

std::string BestText(const ReportAnalysis& analysis, const Style& style, int width) {
  const Candidate& best = analysis.shown_best->candidate;
  const Ratio& speedup = analysis.best_speedup;
  const std::string figure = style.Bold(FormatSpeedup(speedup.value));
  std::string verdict = absl::StrCat(
      best.candidate_id, ", ",
      analysis.confirmed ? "confirmed at the final level" : "screening only, not confirmed");
  if (analysis.best_screening.has_value()) {
    absl::StrAppend(&verdict, " (screening ", FormatSpeedup(*analysis.best_screening), ")");
  }
  absl::StrAppend(&verdict, analysis.faster ? ", faster than the reference by its interval"
                                            : ", not faster than the reference");
  return absl::StrCat(
      WrapText(absl::StrCat(style.Bold("best "), analysis.faster ? style.Green(figure) : figure,
                            " ", FormatInterval(speedup), "  ", OneLine(NameOf(best)), " ",
                            OneLine(TunablesOf(best))),
               width, 5),
      "\n     ", WrapText(verdict, width > 5 ? width - 5 : 0, 5), "\n\n");
}

}  // namespace

std::string SummaryText(const ReportInput& input, const ReportAnalysis& analysis,
                        const Style& style, int width) {
  const ReportCounts& counts = analysis.counts;
  std::string text;
  if (analysis.shown_best.has_value()) {
    text += BestText(analysis, style, width);
  } else {
    const bool gated = input.search.has_value() && NothingCarriesOver(*input.search);
    absl::StrAppend(&text,
                    style.Bold(gated ? kNothingCarriesOver : "no candidate has a measured speedup"),
                    "\n\n");
  }
  const auto add = [&](const std::string& line) {
    absl::StrAppend(&text, WrapText(line, width, 2), "\n");
  };
  add(CountsText(counts, style));
  if (counts.measured > 0) add(absl::StrCat("measured: ", MeasuredWhyText(counts)));
  if (!counts.pruned_by.empty()) add(absl::StrCat("pruned: ", PrunedWhyText(counts)));
  add(DeviceTimeText(counts));
  if (const auto cost = CostOf(input.prices, UsageOf(input, analysis))) {
    add(absl::StrCat("cost ", CostText(*cost)));
  }
  if (const std::string learnt = LearningText(LearningOf(input)); !learnt.empty()) add(learnt);
  if (const SearchTree tree = TreeOf(input, analysis, kShownInTree); tree.derived()) {
    const int tree_width = width > 0 ? width : kMaxTreeWidth;
    for (const std::string& line : TreeLines(tree, kMaxTreeLines, style, tree_width)) {
      absl::StrAppend(&text, line, "\n");
    }
  }
  if (input.search.has_value()) {
    const v1::Search& search = *input.search;
    if (const std::string lessons = LessonsText(search); !lessons.empty()) add(lessons);
    for (const std::string& line : ArchiveLines(search.archive(), kShownBest, style, width)) {
      absl::StrAppend(&text, line, "\n");
    }
    if (search.selective_risk().candidates() > 0) add(RiskText(search.selective_risk()));
    for (const std::string& line : ModelTexts(search)) add(line);
    for (const std::string& line : GateLines(search)) add(line);
    if (search.has_waiting()) {
      add(absl::StrCat("Waiting: ", OneLine(search.waiting().reason())));
    }
  }

  const bool any_final = std::any_of(analysis.rows.begin(), analysis.rows.end(),
                                     [](const ReportRow& row) { return row.final.has_value(); });
  std::vector<Table::Column> columns = {{"screening"}};
  if (any_final) columns.insert(columns.begin(), {"final"});
  columns.push_back({"forecast", Table::Align::kRight});
  columns.push_back({"measured because"});
  columns.push_back({"candidate", Table::Align::kLeft, /*shrinks=*/true});
  Table best(columns);
  size_t shown = 0;
  for (const ReportRow& row : analysis.rows) {
    if (row.speedup() == nullptr || shown++ == kShownBest) break;
    const ReportCandidate& candidate = input.candidates[row.standing];
    std::vector<std::string> cells;
    if (any_final) cells.push_back(row.final.has_value() ? FormatSpeedup(*row.final) : "-");
    cells.push_back(row.screening.has_value() ? FormatSpeedup(*row.screening) : "-");
    cells.push_back(candidate.forecast.has_value() ? ExpectedText(*candidate.forecast) : "-");
    cells.push_back(
        candidate.decision.has_value() ? std::string(ReasonWord(candidate.decision->reason)) : "");
    cells.push_back(absl::StrCat(OneLine(NameOf(candidate.candidate)), " ",
                                 OneLine(TunablesOf(candidate.candidate))));
    best.AddRow(std::move(cells));
  }
  if (!best.empty()) text += "\n" + best.Render(style, width);
  return text;
}

}  // namespace kernelcast::cli
