#include "services/cli/rpc/records.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/gzip_file.h"
#include "common/base/status.h"
#include "common/convert/convert.h"
#include "common/convert/proto_json.h"
#include "services/cli/core/search_ids.h"
#include "services/cli/core/text.h"
#include "services/cli/rpc/channel.h"

namespace kernelcast::cli {
namespace {

constexpr int kSearchesPerPage = 200;

std::string RejectionText(const v1::Rejection& rejection) {
  switch (rejection.cause_case()) {
    case v1::Rejection::kDuplicateOfRequestId:
      return absl::StrCat("duplicate of ", rejection.duplicate_of_request_id());
    case v1::Rejection::kBudget: return absl::StrCat("over the budget: ", rejection.budget());
    case v1::Rejection::kUnavailable:
      return absl::StrCat("could not be evaluated: ", rejection.unavailable());
    case v1::Rejection::kCancelled:
      return rejection.cancelled().empty() ? std::string("cancelled")
                                           : absl::StrCat("cancelled: ", rejection.cancelled());
    default: return "rejected";
  }
}

double Seconds(const google::protobuf::Duration& duration) {
  return static_cast<double>(ToNanoseconds(duration)) * 1e-9;
}

}  // namespace

absl::StatusOr<ReportBest> BestFromProto(const v1::Incumbent& incumbent) {
  ReportBest best;
  KC_ASSIGN_OR_RETURN(best.candidate, FromProto(incumbent.candidate()));
  KC_ASSIGN_OR_RETURN(best.measurement, FromProto(incumbent.measurement()));
  best.request_id = incumbent.request_id();
  return best;
}

absl::StatusOr<ReportCandidate> ReportCandidateFromProto(const v1::Evaluation& evaluation,
                                                         const v1::Candidate& candidate) {
  ReportCandidate row;
  row.request_id = evaluation.request_id();
  const std::string where = absl::StrCat("evaluation ", row.request_id, ": ");
  if (candidate.ByteSizeLong() > 0) {
    KC_ASSIGN_OR_RETURN(row.candidate, WithPrefix(where, FromProto(candidate)));
    if (row.candidate.kind == CandidateKind::kUnspecified) row.candidate.kind = Candidate().kind;
  }
  if (row.candidate.candidate_id.empty()) row.candidate.candidate_id = evaluation.candidate_id();
  if (evaluation.has_decision()) {
    KC_ASSIGN_OR_RETURN(row.decision, WithPrefix(where, FromProto(evaluation.decision())));
  }
  if (evaluation.has_decided_on()) row.forecast = FromProto(evaluation.decided_on());
  switch (evaluation.result_case()) {
    case v1::Evaluation::kMeasured: {
      KC_ASSIGN_OR_RETURN(row.measurement, WithPrefix(where, FromProto(evaluation.measured())));
      break;
    }
    case v1::Evaluation::kForecast: row.forecast = FromProto(evaluation.forecast()); break;
    case v1::Evaluation::kRejected:
      if (evaluation.rejected().has_compile_error()) {
        KC_ASSIGN_OR_RETURN(row.compile_error,
                            WithPrefix(where, FromProto(evaluation.rejected().compile_error())));
      } else {
        row.rejection = RejectionText(evaluation.rejected());
      }
      break;
    default: return WithPrefix(where, absl::InvalidArgumentError("holds no result"));
  }
  row.reused = evaluation.reused();
  row.unstable_seconds = Seconds(evaluation.unstable_device_time());
  row.unstable_preparing_seconds = Seconds(evaluation.unstable_preparation_time());
  row.feedback = evaluation.text_feedback();
  if (evaluation.has_accepted_at()) row.accepted_ns = ToNanoseconds(evaluation.accepted_at());
  if (evaluation.has_settled_at()) row.settled_ns = ToNanoseconds(evaluation.settled_at());
  return row;
}

absl::StatusOr<ReportCandidate> ReportCandidateFromProto(const v1::ExportRecord& record) {
  KC_ASSIGN_OR_RETURN(ReportCandidate row,
                      ReportCandidateFromProto(record.evaluation(), record.candidate()));
  row.sequence = record.sequence();
  if (record.has_facts()) row.facts = FromProto(record.facts());
  if (record.has_reference_facts()) row.reference_facts = FromProto(record.reference_facts());
  return row;
}

absl::StatusOr<std::vector<v1::Search>> ListSearches(v1::Orchestrator::Stub& stub,
                                                     v1::SearchStatus status) {
  std::vector<v1::Search> searches;
  v1::ListSearchesRequest request;
  request.set_status(status);
  request.set_page_size(kSearchesPerPage);
  do {
    v1::ListSearchesReply reply;
    KC_RETURN_IF_ERROR(Call(stub, &v1::Orchestrator::Stub::ListSearches, request, &reply));
    for (v1::Search& search : *reply.mutable_searches()) searches.push_back(std::move(search));
    request.set_page_token(reply.next_page_token());
  } while (!request.page_token().empty());
  std::ranges::stable_sort(searches, std::greater<>(), [](const v1::Search& search) {
    return ToNanoseconds(search.started_at());
  });
  return searches;
}

absl::StatusOr<std::string> FindSearchId(v1::Orchestrator::Stub& stub, const std::string& given) {
  absl::Status unknown;
  if (given != kLatestSearch) {
    v1::GetSearchRequest request;
    request.set_search_id(given);
    v1::GetSearchReply reply;
    unknown = Call(stub, &v1::Orchestrator::Stub::GetSearch, request, &reply);
    if (unknown.ok()) return given;
    if (!absl::IsNotFound(unknown)) return unknown;
  }
  KC_ASSIGN_OR_RETURN(const std::vector<v1::Search> searches, ListSearches(stub));
  std::vector<KnownSearch> known;
  for (const v1::Search& search : searches) {
    known.push_back({search.search_id(), ToNanoseconds(search.started_at())});
  }
  absl::StatusOr<std::string> chosen = ChooseSearchId(given, known);
  if (absl::IsNotFound(chosen.status()) && !unknown.ok()) return unknown;
  return chosen;
}

absl::StatusOr<std::string> FindSearchIdInRecords(const std::vector<std::string>& files,
                                                  const std::string& given) {
  std::map<std::string, int64_t> started;
  for (const std::string& file : files) {
    KC_RETURN_IF_ERROR(ReadRecords(file, [&](const v1::ExportRecord& record) {
      const v1::Evaluation& evaluation = record.evaluation();
      if (!evaluation.search_id().empty()) {
        const int64_t accepted_ns = ToNanoseconds(evaluation.accepted_at());
        const auto [at, is_new] = started.emplace(evaluation.search_id(), accepted_ns);
        if (!is_new) at->second = std::min(at->second, accepted_ns);
      }
      return absl::OkStatus();
    }));
  }
  std::vector<KnownSearch> known;
  for (const auto& [id, started_ns] : started) {
    if (id == given) return given;
    known.push_back({id, started_ns});
  }
  // The caller says what the files hold.
  absl::StatusOr<std::string> chosen = ChooseSearchId(given, known);
  return absl::IsNotFound(chosen.status()) ? given : chosen;
}

absl::Status RequireOneSearch(const std::string& what, const std::vector<v1::Search>& searches) {
  if (searches.size() < 2) return absl::OkStatus();
  std::string ids;
  for (const v1::Search& search : searches) {
    absl::StrAppend(&ids, ids.empty() ? "" : ", ", search.search_id());
  }
  return absl::InvalidArgumentError(
      absl::StrCat(what, ": the search ran on several device models; name one of ", ids));
}

SearchProgress::Phase PhaseOf(v1::SearchStatus status) {
  switch (status) {
    case v1::SEARCH_STATUS_RUNNING: return SearchProgress::Phase::kRunning;
    case v1::SEARCH_STATUS_FINISHING: return SearchProgress::Phase::kFinishing;
    case v1::SEARCH_STATUS_DONE: return SearchProgress::Phase::kDone;
    case v1::SEARCH_STATUS_FAILED: return SearchProgress::Phase::kFailed;
    default: return SearchProgress::Phase::kStarting;
  }
}

void UpdateProgress(const v1::SearchCounts& counts, SearchProgress& progress) {
  progress.proposed = counts.proposed();
  progress.considered = counts.considered();
  progress.measured = counts.measured();
  progress.deferred = counts.deferred();
  progress.promoted = counts.promoted();
  progress.audited = counts.audited();
  progress.failures = counts.failures();
  progress.selected = counts.selected();
  progress.pruned = counts.pruned();
  progress.rejected = counts.rejected();
  progress.device_seconds_avoided = Seconds(counts.device_time_avoided());
  progress.device_seconds_spent = Seconds(counts.device_time_spent());
  const v1::GenerationCounts& generation = counts.generation();
  progress.requested = generation.requested() - generation.unanswered();
  progress.written = generation.written();
  progress.repeated = generation.duplicates();
  progress.unusable = generation.unusable();
  progress.unanswered = generation.unanswered();
  progress.tokens = generation.input_tokens() + generation.output_tokens();
  const v1::TokenUsage& forecasts = counts.model_use().token_usage();
  progress.all_tokens = progress.tokens + forecasts.input_tokens() + forecasts.output_tokens();
  progress.token_cost = generation.cost() + forecasts.cost_dollars();
  progress.unpriced_tokens = FromProto(counts.unpriced_tokens());
}

void UpdateProgress(const v1::Search& search, SearchProgress& progress) {
  progress.search_id = search.search_id();
  progress.target = search.spec().target();
  if (!search.problem_name().empty()) progress.problem = search.problem_name();
  progress.phase = PhaseOf(search.status());
  const v1::Budget& budget = search.spec().budget();
  progress.max_candidates = budget.max_candidates();
  progress.max_measurements = budget.max_measurements();
  progress.max_wall_seconds = Seconds(budget.max_wall_time());
  progress.max_device_seconds = Seconds(budget.max_device_time());
  progress.writes = search.spec().generator() == v1::GENERATOR_LLM;
  progress.max_requests = search.spec().generator_limits().max_requests();
  if (search.has_counts()) UpdateProgress(search.counts(), progress);
}

absl::Status ReadRecords(const std::string& path,
                         const std::function<absl::Status(const v1::ExportRecord&)>& on_record) {
  return ForEachGzipRecord(path, [&](const std::string& line) -> absl::Status {
    v1::ExportRecord record;
    KC_RETURN_IF_ERROR(RecordFromJson(line, &record));
    return on_record(record);
  });
}

}  // namespace kernelcast::cli
