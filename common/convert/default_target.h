#ifndef KERNELCAST_COMMON_CONVERT_DEFAULT_TARGET_H_
#define KERNELCAST_COMMON_CONVERT_DEFAULT_TARGET_H_

#include <vector>

#include "common/domain/problem.h"
#include "kernelcast/v1/kernel.pb.h"
#include "kernelcast/v1/worker.pb.h"

namespace kernelcast {

// Sets `default_target` and `task_gpus` of the reply to PutProblem, from the descriptions of the
// workers. Clients take the default target from the reply.
void SetDefaultTarget(const Problem& problem, const std::vector<v1::WorkerDescription>& workers,
                      v1::PutProblemReply& reply);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_CONVERT_DEFAULT_TARGET_H_
