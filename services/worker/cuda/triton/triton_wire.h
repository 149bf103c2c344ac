#ifndef KERNELCAST_SERVICES_WORKER_CUDA_TRITON_TRITON_WIRE_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_TRITON_TRITON_WIRE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "services/worker/cuda/compiler/wire.h"
#include "services/worker/cuda/triton/triton_plan.h"

// Protocol between the worker and compile_server.py. Frames are those of compiler_wire.
//
//   server    --TritonHello-->                         whether Triton can be imported
//   worker    --a byte with two descriptors-->         a socket, and a file for the child's output
//   server    --the child's process id in 8 bytes-->
//   worker    --request-->       child, over the socket
//   child     --TritonReply-->   worker; untrusted
//
// The server waits for a child only when the worker has closed its end of the socket, so the
// process id stays the child's until then.

namespace kernelcast::worker {

struct TritonHello {
  std::string error;  // empty: none
  std::string triton_version;
  std::string python_version;

  static std::optional<TritonHello> Decode(std::string_view content);
};

struct TritonRequest {
  uint64_t max_memory_bytes = 0;
  uint64_t max_cpu_seconds = 0;
  uint64_t max_output_bytes = 0;
  std::string filter;         // instructions; empty: none
  uint64_t architecture = 0;  // 90 for sm_90a
  uint64_t ptx_version = 0;   // 87 for 8.7
  std::string source;
  std::vector<TritonVariant> variants;

  std::string Encode() const;
};

// Values of compile_server.py.
enum class TritonCode : uint64_t {
  kCompiled = 0,
  kRefused = 1,    // the source does not run or compile
  kAdmission = 2,  // the launch does not fit the source
  kOutOfMemory = 3,
  kBroken = 4,  // the child could not restrict itself
};

struct TritonReply {
  struct Kernel {
    std::string ptx;
    uint64_t shared_bytes = 0;
    uint64_t num_warps = 0;
    uint64_t scratch_bytes = 0;  // of global memory
    uint64_t num_ctas = 0;
  };
  TritonCode code = TritonCode::kBroken;
  std::string log;
  std::vector<Kernel> kernels;  // one per variant

  static std::optional<TritonReply> Decode(std::string_view content);
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_TRITON_TRITON_WIRE_H_
