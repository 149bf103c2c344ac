#ifndef KERNELCAST_SERVICES_WORKER_CUDA_COMPILER_PTXAS_LOG_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_COMPILER_PTXAS_LOG_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kernelcast::worker {

// The output of ptxas -v for one function.
struct PtxasFunction {
  std::string name;
  bool is_kernel = false;
  int64_t registers = 0;
  int64_t stack_bytes = 0;
  int64_t spill_store_bytes = 0;
  int64_t spill_load_bytes = 0;
  int64_t shared_bytes = 0;  // static
};

// Parses the "ptxas info" lines of a compiler's log.
std::vector<PtxasFunction> ReadPtxasInfo(std::string_view log);

// Returns the log without those lines, for the author of the source.
std::string WithoutPtxasInfo(std::string_view log);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_COMPILER_PTXAS_LOG_H_
