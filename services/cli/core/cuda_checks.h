#ifndef KERNELCAST_SERVICES_CLI_CORE_CUDA_CHECKS_H_
#define KERNELCAST_SERVICES_CLI_CORE_CUDA_CHECKS_H_

#include <string>
#include <string_view>
#include <vector>

namespace kernelcast::cli {

enum class Verdict {
  kGood,
  kNote,     // works, but something could be better
  kMissing,  // a feature is unavailable without it
};

// One check of `kernelcast doctor`.
struct Check {
  std::string name;
  Verdict verdict = Verdict::kGood;
  std::string detail;
};

// Checks of GPUs and CUDA's tools, from the output of kernelcast-cuda-probe. None is kMissing,
// since the cpu target does not need CUDA. A check that finds something missing says how to get it.
std::vector<Check> CudaChecks(std::string_view probe_output);

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_CORE_CUDA_CHECKS_H_
