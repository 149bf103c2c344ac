#ifndef KERNELCAST_SERVICES_WORKER_CUDA_COMPILER_STANDARD_HEADERS_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_COMPILER_STANDARD_HEADERS_H_

#include <span>

namespace kernelcast::worker {

struct StandardHeader {
  const char* name;
  const char* text;
};

// Headers that sources for nvcc often include and NVRTC lacks: integer types, limits, and empty
// ones for built-in features. They include <cuda_runtime.h> and <cuda.h>, since the toolkit's
// versions are for hosts.
std::span<const StandardHeader> StandardHeaders();

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_COMPILER_STANDARD_HEADERS_H_
