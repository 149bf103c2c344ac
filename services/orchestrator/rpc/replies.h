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
#include "services/orchestrator/core/engine.h"

namespace kernelcast::orchestrator {

inline constexpr size_t kEvaluationsPerStream = 1024;

// The engine's commands and answers as messages, for whoever serves them.
[[nodiscard]] absl::StatusOr<Engine::EvaluateCommand> CommandFromProto(
    const v1::EvaluateRequest& request);
v1::EvaluateReply ReplyFromRecord(const EvaluationRecord& record);
// For streams, where an error is a reply.
v1::EvaluateReply ReplyFromError(const std::string& request_id, const absl::Status& error);
// What the engine refuses for lack of room is told with the time to come back.
absl::Status WithRetryHint(const absl::Status& status);
// UNAVAILABLE, with the time to come back.
absl::Status UnavailableFor(const std::string& message, absl::Duration pause);

v1::OrchestratorDescription MakeDescription(const WorkerPool& workers,
                                            const ForecasterPool& forecasters,
                                            const EngineFigures& figures, bool draining);

[[nodiscard]] absl::Status CheckPage(const v1::ListSearchesRequest& request);
// `searches` in the order of their ids.
v1::ListSearchesReply MakePage(const v1::ListSearchesRequest& request,
                               const std::vector<SearchSnapshot>& searches);
// One page of all, out of one page of each part, each for the same request.
v1::ListSearchesReply JoinPages(const v1::ListSearchesRequest& request,
                                const std::vector<v1::ListSearchesReply>& parts);

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_RPC_REPLIES_H_
