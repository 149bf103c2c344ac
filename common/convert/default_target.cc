#include "common/convert/default_target.h"

#include <algorithm>
#include <set>
#include <string>

namespace kernelcast {
namespace {

bool JudgesTasksOnGpu(const v1::TargetDescription& target) {
  return target.target() == kCudaTargetName && target.can_measure() &&
         std::ranges::any_of(target.candidate_kinds(), [](int kind) {
           return KindInfoOf(static_cast<CandidateKind>(kind)).takes_tasks;
         });
}

}  // namespace

void SetDefaultTarget(const Problem& problem, const std::vector<v1::WorkerDescription>& workers,
                      v1::PutProblemReply& reply) {
  reply.set_default_target(DefaultTarget(problem));
  if (!problem.task.has_value() || !problem.targets.contains(kCudaTargetName)) return;
  std::set<std::string> gpus;
  for (const v1::WorkerDescription& worker : workers) {
    for (const v1::TargetDescription& target : worker.targets()) {
      if (JudgesTasksOnGpu(target)) gpus.insert(target.device().model());
    }
  }
  if (gpus.empty()) return;
  reply.set_default_target(std::string(kCudaTargetName));
  reply.mutable_task_gpus()->Assign(gpus.begin(), gpus.end());
}

}  // namespace kernelcast
