#ifndef KERNELCAST_SERVICES_WORKER_CUDA_LANGUAGE_TRITON_TRITON_WIRE_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_LANGUAGE_TRITON_TRITON_WIRE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "services/worker/cuda/language/triton/triton_plan.h"

// What the worker and triton_program.py send each other through CompileServer.

namespace kernelcast::worker {

struct TritonRequest {
  uint64_t architecture = 0;  // 90 for sm_90a
  uint64_t ptx_version = 0;   // 87 for 8.7
  std::string source;
  std::vector<TritonVariant> variants;

  std::string Encode() const;
};

// Untrusted.
struct TritonReply {
  struct Kernel {
    std::string ptx;
    uint64_t shared_bytes = 0;
    uint64_t num_warps = 0;
    uint64_t scratch_bytes = 0;  // of global memory
    uint64_t num_ctas = 0;
  };
  std::vector<Kernel> kernels;  // one per variant

  static std::optional<TritonReply> Decode(std::string_view fields);
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_LANGUAGE_TRITON_TRITON_WIRE_H_
