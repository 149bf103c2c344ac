#ifndef KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_ESTIMATE_LAUNCH_FACTS_H_
#define KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_ESTIMATE_LAUNCH_FACTS_H_

#include <vector>

#include "services/worker/virtual_gpu/estimate/estimate.h"
#include "services/worker/virtual_gpu/execute/launch.h"

namespace kernelcast::worker::virtual_gpu {

// Returns the facts of a covered launch, which kCudaSimulationSchemaId names. All values are
// finite.
std::vector<double> LaunchFacts(const LaunchCounts& counts, const LaunchEstimate& estimate);

}  // namespace kernelcast::worker::virtual_gpu

#endif  // KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_ESTIMATE_LAUNCH_FACTS_H_
