#ifndef KERNELCAST_SERVICES_CLI_CORE_CUDA_FINDINGS_H_
#define KERNELCAST_SERVICES_CLI_CORE_CUDA_FINDINGS_H_

#include <string>
#include <string_view>
#include <vector>

namespace kernelcast::cli {

enum class Verdict {
  kGood,
  kNote,     // works, but something could be better
  kMissing,  // a feature is unavailable without it
};

// One finding of `kernelcast doctor`.
struct Finding {
  std::string name;
  Verdict verdict = Verdict::kGood;
  std::string detail;
};

// Findings on GPUs and CUDA's tools, from the output of kernelcast-cuda-probe. None is kMissing,
// since the cpu target does not need CUDA. A finding on something missing says how to get it.
std::vector<Finding> CudaFindings(std::string_view probe_output);

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_CORE_CUDA_FINDINGS_H_
