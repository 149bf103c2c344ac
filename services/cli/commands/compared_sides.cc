#include "services/cli/commands/compared_sides.h"

#include <algorithm>
#include <map>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/domain/text.h"
#include "common/rpc/status_conversion.h"
#include "services/cli/commands/reporting.h"
#include "services/cli/report/analysis.h"
#include "services/cli/rpc/channel.h"
#include "services/cli/rpc/records.h"
#include "services/cli/rpc/suite_file.h"

namespace kernelcast::cli {
namespace {

constexpr absl::Duration kKernelExportTimeout = absl::Minutes(10);

SuiteRow ComparedRow(const std::string& task, ReportCandidate judged) {
  SuiteRow row;
  row.task = task;
  row.name = judged.candidate.candidate_id;
  row.target = judged.candidate.target;
  if (judged.measurement) row.device_model = judged.measurement->device.model;
  row.judged = std::move(judged);
  return row;
}

// The best candidate of a search, or of records of one problem.
void AddBest(const ReportInput& input, ComparedSide& side) {
  const ReportAnalysis analysis = Analyze(input);
  if (!analysis.shown_best) return;
  ReportCandidate best;
  best.candidate = analysis.shown_best->candidate;
  best.measurement = analysis.shown_best->measurement;
  const std::string problem_id = best.measurement->problem_id;
  side.best.insert_or_assign(problem_id, ComparedRow(input.problem_name, std::move(best)));
}

// Whether a measurement says more than another: of a higher level, or later.
bool SaysMore(const ReportCandidate& one, const ReportCandidate& other) {
  const auto key = [](const ReportCandidate& candidate) {
    const bool final =
        candidate.measurement && candidate.measurement->level == MeasureLevel::kFinal;
    return std::tuple(candidate.measurement.has_value(), final, candidate.settled_ns);
  };
  return key(one) > key(other);
}

}  // namespace

absl::StatusOr<ComparedSide> SideOfSuite(const std::string& path) {
  KC_ASSIGN_OR_RETURN(const SuiteResults results, ReadSuiteResults(path));
  ComparedSide side;
  side.title = absl::StrCat("suite ", path);
  side.named = true;
  side.rows = CurrentRows(results);
  CountRows(side);
  return side;
}

absl::StatusOr<ComparedSide> SideOfRecords(const std::string& path) {
  ComparedSide side;
  side.title = absl::StrCat("records ", path);
  std::map<std::string, ReportInput> problems;
  KC_RETURN_IF_ERROR(ReadRecords(path, [&](const v1::ExportRecord& record) -> absl::Status {
    KC_ASSIGN_OR_RETURN(ReportCandidate candidate, ReportCandidateFromProto(record));
    side.rows.push_back(ComparedRow(record.problem_name(), candidate));
    ReportInput& input = problems[candidate.candidate.problem_id];
    input.problem_name = record.problem_name();
    input.candidates.push_back(std::move(candidate));
    return absl::OkStatus();
  }));
  for (const auto& [problem_id, input] : problems) AddBest(input, side);
  CountRows(side);
  return side;
}

absl::StatusOr<ComparedSide> SideOfSearch(const Context& context, Connection& connection,
                                          const std::string& given) {
  ComparedSide side;
  const auto fetch = [&](v1::Orchestrator::Stub& stub) -> absl::Status {
    v1::GetSearchRequest request;
    KC_ASSIGN_OR_RETURN(*request.mutable_search_id(), FindSearchId(stub, given));
    v1::GetSearchReply reply;
    KC_RETURN_IF_ERROR(Call(stub, &v1::Orchestrator::Stub::GetSearch, request, &reply));
    const std::vector<v1::Search> searches = SearchesIn(reply);
    KC_RETURN_IF_ERROR(RequireOneSearch("compare", searches));
    KC_ASSIGN_OR_RETURN(const ReportInput input,
                        FetchReport(context, stub, searches.front(), nullptr));
    side = ComparedSide();
    side.title = absl::StrCat("search ", searches.front().search_id());
    for (const ReportCandidate& candidate : input.candidates) {
      side.rows.push_back(ComparedRow(input.problem_name, candidate));
    }
    AddBest(input, side);
    CountRows(side);
    side.device_seconds = Analyze(input).counts.device_seconds_spent;
    return absl::OkStatus();
  };
  KC_RETURN_IF_ERROR(connection.AskOrchestrator(fetch));
  return side;
}

absl::StatusOr<ComparedSide> SideOfKernel(Connection& connection, const std::string& given) {
  std::map<std::string, std::vector<SuiteRow>> found;  // by candidate id
  const auto fetch = [&](v1::Orchestrator::Stub& stub) -> absl::Status {
    found.clear();
    grpc::ClientContext call;
    SetTimeout(call, kKernelExportTimeout);
    const CancellableCall cancellable(call);
    const auto reader = stub.Export(&call, v1::ExportRequest());
    v1::ExportRecord record;
    absl::Status broken;
    while (reader->Read(&record)) {
      const std::string& id = record.evaluation().candidate_id();
      if (!id.starts_with(given)) continue;
      absl::StatusOr<ReportCandidate> candidate = ReportCandidateFromProto(record);
      if (!candidate.ok()) {
        broken = candidate.status();
        call.TryCancel();
        break;
      }
      found[id].push_back(ComparedRow(record.problem_name(), *std::move(candidate)));
    }
    const grpc::Status finished = reader->Finish();
    KC_RETURN_IF_ERROR(broken);
    return FromGrpc(finished, call);
  };
  KC_RETURN_IF_ERROR(connection.AskOrchestrator(fetch));
  if (found.empty()) {
    return absl::NotFoundError(
        absl::StrCat("no evaluated kernel has an id that begins with ", Quoted(given)));
  }
  if (found.size() > 1) {
    std::vector<std::string> ids;
    for (const auto& [id, rows] : found) ids.push_back(id);
    return absl::InvalidArgumentError(
        absl::StrCat(Quoted(given), " is the beginning of several ids: ", CommaList(ids)));
  }
  ComparedSide side;
  side.title = absl::StrCat("kernel ", found.begin()->first);
  side.rows = std::move(found.begin()->second);
  const SuiteRow& best = *std::ranges::max_element(
      side.rows,
      [](const SuiteRow& a, const SuiteRow& b) { return SaysMore(*b.judged, *a.judged); });
  const std::string problem_id = best.judged->candidate.problem_id;
  side.best.emplace(problem_id, best);
  CountRows(side);
  return side;
}

}  // namespace kernelcast::cli
