#ifndef KERNELCAST_SERVICES_WORKER_CUDA_COMPILER_CUBIN_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_COMPILER_CUBIN_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace kernelcast::worker {

struct CubinKernel {
  std::string name;  // launch name: mangled unless extern "C"
  int64_t registers = 0;
  int64_t stack_bytes = 0;     // per thread
  int64_t shared_bytes = 0;    // static, per block, without the system's reservation
  int64_t constant_bytes = 0;  // in its own banks
  int64_t code_bytes = 0;
};

struct Cubin {
  std::vector<CubinKernel> kernels;  // sorted by name
  int64_t code_bytes = 0;            // of all functions
  int64_t constant_bytes = 0;        // of all banks
};

// Reads the kernels of a cubin, which is an ELF file. Trusts nothing in it. INVALID_ARGUMENT: not a
// cubin, or damaged.
[[nodiscard]] absl::StatusOr<Cubin> ReadCubin(std::string_view content);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_COMPILER_CUBIN_H_
