#ifndef KERNELCAST_SERVICES_CLI_RPC_RECORDS_H_
#define KERNELCAST_SERVICES_CLI_RPC_RECORDS_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernelcast/v1/orchestrator.pb.h"
#include "services/cli/core/progress.h"
#include "services/cli/report/model.h"

namespace kernelcast::cli {

// Between the orchestrator's messages and what the command line shows.

// INVALID_ARGUMENT: the record lacks what every record has, such as a result.
[[nodiscard]] absl::StatusOr<ReportCandidate> ReportCandidateFromProto(
    const v1::ExportRecord& record);
[[nodiscard]] absl::StatusOr<ReportCandidate> ReportCandidateFromProto(
    const v1::Evaluation& evaluation, const v1::Candidate& candidate);

[[nodiscard]] absl::StatusOr<ReportSearch> ReportSearchFromProto(const v1::Search& search);

// Limits, counts and incumbent of a search; leaves alone what only events tell.
void UpdateProgress(const v1::Search& search, SearchProgress& progress);
void UpdateProgress(const v1::SearchCounts& counts, SearchProgress& progress);
SearchProgress::Phase PhaseOf(v1::SearchStatus status);

// "running", "done", ...
std::string StatusName(v1::SearchStatus status);

// Reads a file of exported records, one JSON object a line. INVALID_ARGUMENT names file and line.
[[nodiscard]] absl::Status ReadRecords(
    const std::string& path, const std::function<absl::Status(const v1::ExportRecord&)>& on_record);

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_RPC_RECORDS_H_
