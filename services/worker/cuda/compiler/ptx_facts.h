#ifndef KERNELCAST_SERVICES_WORKER_CUDA_COMPILER_PTX_FACTS_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_COMPILER_PTX_FACTS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/domain/candidate.h"
#include "common/domain/facts.h"
#include "services/worker/cuda/compiler/cubin.h"
#include "services/worker/cuda/compiler/ptxas_log.h"

namespace kernelcast::worker {

// The parts of a launch that do not depend on axes.
struct LaunchShape {
  std::string kernel;
  std::optional<int64_t> block_threads;
  std::optional<int64_t> dynamic_shared_bytes;
};
std::vector<LaunchShape> LaunchShapesOf(const std::vector<Launch>& launches,
                                        const std::vector<Tunable>& tunables);

// Returns facts of schema "cuda-ptx/1" of one source compiled by NVRTC. Launch facts stay 0.
// Unknown instructions count only as instructions.
CompileFacts ExtractPtxFacts(std::string_view ptx, const Cubin& cubin,
                             std::span<const PtxasFunction> resources);

// Sets the launch facts. `registers` and `shared_bytes` of the launched kernel come from `cubin`.
void AddLaunchFacts(std::span<const LaunchShape> launches, const Cubin& cubin,
                    std::string_view architecture, CompileFacts& facts);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_COMPILER_PTX_FACTS_H_
