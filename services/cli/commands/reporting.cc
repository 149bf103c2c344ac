#include "services/cli/commands/reporting.h"

#include <unistd.h>

#include <cstdio>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/base/version.h"
#include "common/rpc/status_conversion.h"
#include "services/cli/core/table.h"
#include "services/cli/report/data_json.h"
#include "services/cli/report/html.h"
#include "services/cli/rpc/channel.h"
#include "services/cli/rpc/records.h"

namespace kernelcast::cli {
namespace {

constexpr size_t kShownBest = 8;
constexpr absl::Duration kExportTimeout = absl::Minutes(10);

}  // namespace

absl::StatusOr<ReportInput> FetchReport(const Context& context, v1::Orchestrator::Stub& stub,
                                        const v1::Search& search, const Problem* problem) {
  ReportInput input;
  input.problem_name = search.problem_name();
  input.target = search.spec().target();
  KC_ASSIGN_OR_RETURN(input.search, ReportSearchFromProto(search));
  input.generated_ns = Clock::Real().WallNs();
  input.generator_version = absl::StrCat("kernelcast ", std::string(Version()));

  grpc::ClientContext call;
  SetTimeout(call, kExportTimeout);
  v1::ExportRequest request;
  request.set_search_id(search.search_id());
  request.set_include_sources(true);
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
    input.candidates.push_back(*std::move(candidate));
  }
  const grpc::Status finished = reader->Finish();
  KC_RETURN_IF_ERROR(broken);
  KC_RETURN_IF_ERROR(FromGrpc(finished, call));
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
  // Another version of the problem would describe what was not run.
  if (!loaded.ok() || loaded->problem.problem_id != problem_id) return;
  AddProblem(loaded->problem, input.target, input);
}

absl::Status WriteReport(Console& console, const ReportInput& input, const std::string& path) {
  const std::string page = RenderReport(input);
  if (path == "-") {
    if (std::fwrite(page.data(), 1, page.size(), stdout) != page.size() ||
        std::fflush(stdout) != 0) {
      return absl::InternalError("cannot write the report to standard output");
    }
    return absl::OkStatus();
  }
  KC_RETURN_IF_ERROR(WriteFileAtomically(path, page));
  console.Note(absl::StrCat("report: ", path));
  return absl::OkStatus();
}

std::string DefaultReportPath(const std::string& state_dir, const std::string& name) {
  return absl::StrCat(state_dir, "/reports/", name, ".html");
}

std::string SummaryText(const ReportInput& input, const ReportAnalysis& analysis,
                        const Style& style, int width) {
  const ReportCounts& counts = analysis.counts;
  std::string text;
  const Ratio* speedup =
      analysis.shown_best.has_value() ? MeasuredSpeedup(analysis.shown_best->measurement) : nullptr;
  if (speedup != nullptr) {
    const Candidate& best = analysis.shown_best->candidate;
    const std::string figure = analysis.faster
                                   ? style.Green(style.Bold(FormatSpeedup(speedup->value)))
                                   : style.Bold(FormatSpeedup(speedup->value));
    absl::StrAppend(
        &text, style.Bold("best "), figure, " ", FormatInterval(*speedup), "  ",
        OneLine(OriginOf(best)), " ", OneLine(TunablesOf(best)), "\n     ", best.candidate_id, ", ",
        analysis.confirmed ? "confirmed at the final level" : "screening only, not confirmed",
        analysis.faster ? ", faster than the reference by its interval"
                        : ", not faster than the reference",
        "\n\n");
  } else {
    absl::StrAppend(&text, style.Bold("no candidate has a measured speedup"), "\n\n");
  }

  Table figures({{"considered", Table::Align::kRight},
                 {"measured", Table::Align::kRight},
                 {"pruned", Table::Align::kRight},
                 {"deferred", Table::Align::kRight},
                 {"promoted", Table::Align::kRight},
                 {"audited", Table::Align::kRight},
                 {"rejected", Table::Align::kRight},
                 {"failed", Table::Align::kRight},
                 {"device spent", Table::Align::kRight},
                 {"avoided", Table::Align::kRight}});
  figures.AddRow(
      {FormatCount(counts.considered), FormatCount(counts.measured), FormatCount(counts.pruned),
       FormatCount(counts.deferred), FormatCount(counts.promoted), FormatCount(counts.audited),
       FormatCount(counts.rejected), FormatCount(counts.failures),
       FormatSeconds(counts.device_seconds_spent), FormatSeconds(counts.device_seconds_avoided)});
  text += figures.Render(style, width);
  if (input.search.has_value() && input.search->risk.has_value()) {
    absl::StrAppend(&text, "\n", RiskText(*input.search->risk), "\n");
  }

  Table best({{"speedup", Table::Align::kRight},
              {"interval"},
              {"forecast", Table::Align::kRight},
              {"measured because"},
              {"candidate", Table::Align::kLeft, /*shrinks=*/true}});
  std::set<std::string> shown;
  for (const size_t i : DisplayOrder(input)) {
    const ReportCandidate& candidate = input.candidates[i];
    const Ratio* measured = SpeedupOf(candidate);
    if (measured == nullptr || shown.size() >= kShownBest) break;
    if (analysis.is_confirmation[i] || !shown.insert(candidate.candidate.candidate_id).second) {
      continue;
    }
    best.AddRow(
        {FormatSpeedup(measured->value), FormatInterval(*measured),
         candidate.forecast.has_value()
             ? FormatSpeedup(std::exp2(candidate.forecast->expected_log2_speedup))
             : "-",
         candidate.decision.has_value() ? std::string(ReasonWord(candidate.decision->reason)) : "",
         absl::StrCat(OneLine(OriginOf(candidate.candidate)), " ",
                      OneLine(TunablesOf(candidate.candidate)))});
  }
  if (!best.empty()) text += "\n" + best.Render(style, width);
  return text;
}

Json SummaryJson(const ReportInput& input, const ReportAnalysis& analysis) {
  const ReportCounts& counts = analysis.counts;
  Json json;
  if (input.search.has_value()) {
    json["search_id"] = input.search->search_id;
    json["status"] = input.search->status;
    json["end_reason"] = input.search->end_reason;
  }
  json["problem"] = input.problem_name;
  json["target"] = input.target;
  if (analysis.shown_best.has_value()) {
    const ReportBest& best = *analysis.shown_best;
    Json& out = json["best"];
    out["candidate_id"] = best.candidate.candidate_id;
    out["origin"] = best.candidate.origin;
    out["tunables"] = Json::object();
    for (const Tunable& tunable : best.candidate.tunables) {
      out["tunables"][tunable.name] = tunable.value;
    }
    out["flags"] = best.candidate.flags;
    if (const Ratio* speedup = MeasuredSpeedup(best.measurement); speedup != nullptr) {
      out["speedup"] = {{"value", speedup->value},
                        {"low", speedup->low},
                        {"high", speedup->high},
                        {"confidence", speedup->confidence}};
    }
    out["confirmed"] = analysis.confirmed;
    out["faster"] = analysis.faster;
    out["source"] = best.candidate.source;
  } else {
    json["best"] = nullptr;
  }
  json["counts"] = {
      {"considered", counts.considered}, {"decided", counts.decided}, {"measured", counts.measured},
      {"reused", counts.reused},         {"pruned", counts.pruned},   {"deferred", counts.deferred},
      {"promoted", counts.promoted},     {"audited", counts.audited}, {"rejected", counts.rejected},
      {"failures", counts.failures},     {"faster", counts.faster}};
  if (input.search.has_value() && input.search->risk.has_value()) {
    const ReportRisk& risk = *input.search->risk;
    json["selective_risk"] = {{"estimate", risk.estimate},
                              {"low", risk.low},
                              {"high", risk.high},
                              {"candidates", risk.candidates},
                              {"measured", risk.measured},
                              {"certified_threshold", risk.certified_threshold},
                              {"alpha", risk.alpha},
                              {"delta", risk.delta},
                              {"informative", risk.informative},
                              {"alarms", risk.alarms}};
  }
  json["defer_rate"] = counts.defer_rate;
  json["device_seconds_spent"] = counts.device_seconds_spent;
  json["device_seconds_avoided"] = counts.device_seconds_avoided;
  return json;
}

}  // namespace kernelcast::cli
