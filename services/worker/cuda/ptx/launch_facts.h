#ifndef KERNELCAST_SERVICES_WORKER_CUDA_PTX_LAUNCH_FACTS_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_PTX_LAUNCH_FACTS_H_

#include <string_view>
#include <vector>

#include "services/worker/cuda/ptx/estimate.h"
#include "services/worker/cuda/ptx/simulator.h"

namespace kernelcast::worker::ptx {

// Schema of the values of LaunchFacts, which common/domain names.
inline constexpr std::string_view kLaunchFactsSchema = "cuda-sim/1";

// Returns the facts of a covered launch. All values are finite.
std::vector<double> LaunchFacts(const LaunchCounts& counts, const LaunchEstimate& estimate);

}  // namespace kernelcast::worker::ptx

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_PTX_LAUNCH_FACTS_H_
