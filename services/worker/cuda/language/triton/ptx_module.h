#ifndef KERNELCAST_SERVICES_WORKER_CUDA_LANGUAGE_TRITON_PTX_MODULE_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_LANGUAGE_TRITON_PTX_MODULE_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace kernelcast::worker {

// One kernel of a merged module.
struct PtxKernel {
  std::string name;           // in the module
  int64_t block_threads = 0;  // which the kernel demands
  int64_t parameters = 0;
};

struct PtxModule {
  std::string text;
  std::vector<PtxKernel> kernels;  // one for each input, in their order
};

// Merges texts of PTX, each with one kernel, into one module for `architecture`, such as "sm_90a".
// Trusts nothing in them. Kernels and variables of later texts are renamed where names repeat.
// Debug sections are dropped; ".loc" directives remain only for `source_name`, as file 1.
//
// INVALID_ARGUMENT: a text has no kernel or several, does not fix its block size, calls functions
// of the system such as printf, or is for another architecture.
[[nodiscard]] absl::StatusOr<PtxModule> MergePtx(std::span<const std::string> texts,
                                                 std::string_view architecture,
                                                 std::string_view source_name);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_LANGUAGE_TRITON_PTX_MODULE_H_
