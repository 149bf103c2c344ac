#ifndef KERNELCAST_SERVICES_WORKER_CUDA_TARGET_RUNNER_PROBE_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_TARGET_RUNNER_PROBE_H_

#include <sys/types.h>

#include <string>
#include <vector>

namespace kernelcast::worker {

// Adds the protections that the machine does not grant the runner in this folder. None if the
// runner cannot be started.
void AddMissingProtections(const std::string& program_folder, uid_t uid,
                           std::vector<std::string>& missing);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_TARGET_RUNNER_PROBE_H_
