#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_RPC_REPLIES_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_RPC_REPLIES_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "kernelcast/v1/orchestrator.pb.h"
#include "services/orchestrator/clients/forecaster_pool.h"
#include "services/orchestrator/clients/worker_pool.h"
#include "services/orchestrator/convert/convert.h"
#include "services/orchestrator/core/engine.h"

namespace kernelcast::orchestrator {

inline constexpr size_t kEvaluationsPerStream = 1024;

// Converts between the engine's commands and results and messages.
[[nodiscard]] absl::StatusOr<Engine::EvaluateCommand> CommandFromProto(
    const v1::EvaluateRequest& request);
// The reply to the request with this id.
v1::EvaluateReply ReplyFromRecord(const std::string& request_id, const EvaluationRecord& record,
                                  bool with_facts);
template <class Reply>
Reply ReplyFromSearch(const SearchSnapshot& search) {
  Reply reply;
  *reply.add_searches() = ToProto(search);
  for (const SearchSnapshot& other : search.further) *reply.add_searches() = ToProto(other);
  return reply;
}
// For streams, where an error is a reply.
v1::EvaluateReply ReplyFromError(const std::string& request_id, const absl::Status& error);
// Adds a retry delay to RESOURCE_EXHAUSTED errors of the engine.
absl::Status WithRetryHint(const absl::Status& status);
// UNAVAILABLE with a retry delay.
absl::Status UnavailableFor(const std::string& message, absl::Duration pause);

v1::OrchestratorDescription MakeDescription(const WorkerPool& workers,
                                            const ForecasterPool& forecasters,
                                            const EngineFigures& figures, bool draining);

[[nodiscard]] absl::Status CheckPage(const v1::ListSearchesRequest& request);
// `searches` must be ordered by id.
v1::ListSearchesReply MakePage(const v1::ListSearchesRequest& request,
                               const std::vector<SearchSnapshot>& searches);
// Merges the pages of all parts, each made for the same request, into one page.
v1::ListSearchesReply JoinPages(const v1::ListSearchesRequest& request,
                                const std::vector<v1::ListSearchesReply>& parts);

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_RPC_REPLIES_H_
