#ifndef KERNELCAST_SERVICES_CLI_RPC_RECORDS_H_
#define KERNELCAST_SERVICES_CLI_RPC_RECORDS_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernelcast/v1/orchestrator.grpc.pb.h"
#include "services/cli/core/progress.h"
#include "services/cli/report/model.h"

namespace kernelcast::cli {

// Conversions between the orchestrator's messages and the command line's types.

// INVALID_ARGUMENT: the record lacks a required field, such as a result.
[[nodiscard]] absl::StatusOr<ReportCandidate> ReportCandidateFromProto(
    const v1::ExportRecord& record);
[[nodiscard]] absl::StatusOr<ReportCandidate> ReportCandidateFromProto(
    const v1::Evaluation& evaluation, const v1::Candidate& candidate);

[[nodiscard]] absl::StatusOr<ReportBest> BestFromProto(const v1::Incumbent& incumbent);

// The searches in a reply: one, or those of one id on several device models. Never empty.
template <class Reply>
std::vector<v1::Search> SearchesIn(const Reply& reply) {
  if (reply.searches().empty()) return {v1::Search()};
  return {reply.searches().begin(), reply.searches().end()};
}
// All searches in this state, or in any; newest first.
[[nodiscard]] absl::StatusOr<std::vector<v1::Search>> ListSearches(
    v1::Orchestrator::Stub& stub, v1::SearchStatus status = v1::SEARCH_STATUS_UNSPECIFIED);
// Returns the id that `given` stands for: an id, or what ChooseSearchId accepts. Errors of the
// orchestrator, and INVALID_ARGUMENT as ChooseSearchId.
[[nodiscard]] absl::StatusOr<std::string> FindSearchId(v1::Orchestrator::Stub& stub,
                                                       const std::string& given);
// The same for the searches in files of records.
[[nodiscard]] absl::StatusOr<std::string> FindSearchIdInRecords(
    const std::vector<std::string>& files, const std::string& given);

// INVALID_ARGUMENT if there are several searches; the message lists their ids. `what` names what
// needs a single search.
[[nodiscard]] absl::Status RequireOneSearch(const std::string& what,
                                            const std::vector<v1::Search>& searches);

// Updates limits, counts and incumbent. Fields known only from events stay unchanged.
void UpdateProgress(const v1::Search& search, SearchProgress& progress);
void UpdateProgress(const v1::SearchCounts& counts, SearchProgress& progress);
SearchProgress::Phase PhaseOf(v1::SearchStatus status);

// Reads a file of exported records, one JSON object per line, which may be compressed with gzip.
// INVALID_ARGUMENT: names file and line of a malformed record or a number that is not finite.
[[nodiscard]] absl::Status ReadRecords(
    const std::string& path, const std::function<absl::Status(const v1::ExportRecord&)>& on_record);

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_RPC_RECORDS_H_
