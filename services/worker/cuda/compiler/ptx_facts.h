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

namespace kernelcast::worker {

// What ptxas -v says of one function.
struct PtxasFunction {
  std::string name;
  bool is_kernel = false;
  int64_t registers = 0;
  int64_t stack_bytes = 0;
  int64_t spill_store_bytes = 0;
  int64_t spill_load_bytes = 0;
  int64_t shared_bytes = 0;  // static
};

// Reads the "ptxas info" lines of a compiler's log.
std::vector<PtxasFunction> ReadPtxasInfo(std::string_view log);

// The log without those lines: what is left is of interest to the author of a source.
std::string WithoutPtxasInfo(std::string_view log);

// A launch as far as it does not depend on axes.
struct LaunchShape {
  std::string kernel;
  std::optional<int64_t> block_threads;
  std::optional<int64_t> dynamic_shared_bytes;
};
std::vector<LaunchShape> LaunchShapesOf(const std::vector<Launch>& launches,
                                        const std::vector<Tunable>& tunables);

// Facts of schema "cuda-ptx/1" of what NVRTC made of one source, without those of its launches,
// which stay 0. What is not understood is counted as an instruction and nothing else.
CompileFacts ExtractPtxFacts(std::string_view ptx, const Cubin& cubin,
                             std::span<const PtxasFunction> resources);

// Fills in the facts of the launches. `registers` and `shared_bytes` of the launched kernel are
// taken from `cubin`.
void AddLaunchFacts(std::span<const LaunchShape> launches, const Cubin& cubin,
                    std::string_view architecture, CompileFacts& facts);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_COMPILER_PTX_FACTS_H_
