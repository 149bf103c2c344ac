#ifndef KERNELCAST_SERVICES_WORKER_CUDA_COMPILER_STANDARD_HEADERS_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_COMPILER_STANDARD_HEADERS_H_

#include <span>
#include <string>
#include <vector>

namespace kernelcast::worker {

struct StandardHeader {
  std::string name;
  std::string text;
  // The names that it declares in namespace std.
  std::vector<std::string> names;
};

// Headers that sources for nvcc often include and NVRTC lacks: the parts of the standard library
// that device code can use, and <cuda_runtime.h> and <cuda.h>, since the toolkit's versions are for
// hosts. Many include headers of CCCL.
std::span<const StandardHeader> StandardHeaders();

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_COMPILER_STANDARD_HEADERS_H_
