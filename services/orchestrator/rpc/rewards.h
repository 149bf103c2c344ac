#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_RPC_REWARDS_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_RPC_REWARDS_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/domain/kernel_reward.h"
#include "kernelcast/v1/orchestrator.pb.h"

namespace kernelcast::orchestrator {

// INVALID_ARGUMENT: "reward.FIELD: ...".
[[nodiscard]] absl::StatusOr<KernelRewardSpec> FromProto(const v1::KernelRewardSpec& spec);

// Adds the rewards of a reply's evaluations, unless another orchestrator has done so.
void AddRewards(const KernelRewardSpec& spec, v1::EvaluateReply& reply);

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_RPC_REWARDS_H_
