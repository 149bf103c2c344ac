#ifndef KERNELCAST_SERVICES_CLI_CORE_CUDA_FINDINGS_H_
#define KERNELCAST_SERVICES_CLI_CORE_CUDA_FINDINGS_H_

#include <string>
#include <string_view>
#include <vector>

namespace kernelcast::cli {

enum class Verdict {
  kGood,
  kNote,     // works, but something could be better
  kMissing,  // something cannot be done without it
};

// What `kernelcast doctor` found of one thing.
struct Finding {
  std::string name;
  Verdict verdict = Verdict::kGood;
  std::string detail;
};

// Findings on GPUs and CUDA's tools from what kernelcast-cuda-probe printed. Nothing of CUDA is
// needed for the cpu target, so none of them is kMissing. What is not there says how to get it.
std::vector<Finding> CudaFindings(std::string_view probe_output);

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_CORE_CUDA_FINDINGS_H_
