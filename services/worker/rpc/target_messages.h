#ifndef KERNELCAST_SERVICES_WORKER_RPC_TARGET_MESSAGES_H_
#define KERNELCAST_SERVICES_WORKER_RPC_TARGET_MESSAGES_H_

#include <map>
#include <string>
#include <vector>

#include "kernelcast/v1/worker.pb.h"
#include "services/worker/core/target.h"

namespace kernelcast::worker {

// Messages of worker.proto that say what a target is and what it has compiled.

v1::TargetDescription DescribeTarget(const TargetInfo& info);

// Sets the targets of a worker and the protections that are missing in any of them.
void DescribeTargets(const std::map<std::string, Target*>& targets, v1::WorkerDescription& worker);

// Without `want_artifact` the artefact has no content.
v1::CompileReply CompileReplyOf(const std::string& request_id, const CompileResult& compiled,
                                bool want_artifact);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_RPC_TARGET_MESSAGES_H_
