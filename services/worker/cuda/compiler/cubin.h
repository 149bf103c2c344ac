#ifndef KERNELCAST_SERVICES_WORKER_CUDA_COMPILER_CUBIN_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_COMPILER_CUBIN_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace kernelcast::worker {

struct CubinKernel {
  std::string name;  // as it is launched by: mangled unless it is extern "C"
  int64_t registers = 0;
  int64_t stack_bytes = 0;     // a thread
  int64_t shared_bytes = 0;    // static, a block, without what the system reserves
  int64_t constant_bytes = 0;  // of its own banks
  int64_t code_bytes = 0;
};

struct Cubin {
  std::vector<CubinKernel> kernels;  // in order of their names
  int64_t code_bytes = 0;            // of all functions, kernels or not
  int64_t constant_bytes = 0;        // of all banks
};

// Reads what a cubin, an ELF file, says of its kernels. Trusts nothing in it. INVALID_ARGUMENT: not
// a cubin, or damaged.
[[nodiscard]] absl::StatusOr<Cubin> ReadCubin(std::string_view content);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_COMPILER_CUBIN_H_
