#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_CLIENTS_WORKER_REPLIES_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_CLIENTS_WORKER_REPLIES_H_

#include <string>

#include "absl/status/statusor.h"
#include "kernelcast/v1/worker.pb.h"
#include "services/orchestrator/core/ports.h"

namespace kernelcast::orchestrator {

// Workers are trusted to be ours but not to be correct, so their replies are checked first.
// INTERNAL, like the failure of a worker: the reply does not belong to this request or is
// impossible.
[[nodiscard]] absl::StatusOr<CompileResult> ReadCompileReply(const std::string& request_id,
                                                             const v1::CompileReply& reply);
[[nodiscard]] absl::StatusOr<MeasureResult> ReadMeasureReply(const v1::MeasureRequest& asked,
                                                             const v1::MeasureReply& reply);

// Why a description is impossible. Empty: it is possible.
std::string ImpossibleInDescription(const v1::WorkerDescription& description);

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CLIENTS_WORKER_REPLIES_H_
