#ifndef KERNELCAST_SERVICES_WORKER_CUDA_API_CUDA_TOOLKIT_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_API_CUDA_TOOLKIT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace kernelcast::worker {

// Where the parts of NVIDIA's toolkit are, as paths. Those that are optional may be empty.
struct CudaToolkit {
  std::string home;
  std::string include_directory;  // with cuda_fp16.h
  std::string nvrtc_library;
  std::string nvrtc_builtins;
  std::string nvcc;           // optional
  std::string cupti_library;  // optional
  // Optional, both or none, from one folder.
  std::string cublas_library;
  std::string cublaslt_library;
};

// Folders that may hold a toolkit, the best first. `home`, or KERNELCAST_CUDA_HOME where it is
// empty, is the only one if it is given; else CUDA_HOME, CUDA_PATH, `program_folder`/../cuda, what
// LD_LIBRARY_PATH names, /usr/local/cuda and /usr.
std::vector<std::string> CudaHomes(const std::string& home, const std::string& program_folder);

// The first of `homes` with NVRTC, its built-ins and the headers, all of one version. NOT_FOUND:
// what is missing in each.
[[nodiscard]] absl::StatusOr<CudaToolkit> FindCudaToolkit(const std::vector<std::string>& homes);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_API_CUDA_TOOLKIT_H_
