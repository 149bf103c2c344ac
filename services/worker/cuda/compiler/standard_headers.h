#ifndef KERNELCAST_SERVICES_WORKER_CUDA_COMPILER_STANDARD_HEADERS_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_COMPILER_STANDARD_HEADERS_H_

#include <span>

namespace kernelcast::worker {

struct StandardHeader {
  const char* name;
  const char* text;
};

// Headers that sources for nvcc include out of habit and NVRTC does not have: integer types,
// limits, and empty ones for what is built in. <cuda_runtime.h> and <cuda.h> are among them, since
// the toolkit's are for hosts.
std::span<const StandardHeader> StandardHeaders();

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_COMPILER_STANDARD_HEADERS_H_
