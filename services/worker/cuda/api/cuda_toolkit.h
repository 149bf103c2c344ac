#ifndef KERNELCAST_SERVICES_WORKER_CUDA_API_CUDA_TOOLKIT_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_API_CUDA_TOOLKIT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace kernelcast::worker {

// Absolute paths of the parts of NVIDIA's toolkit. Optional ones may be empty.
struct CudaToolkit {
  std::string home;
  std::string include_directory;                        // contains cuda_fp16.h
  std::vector<std::string> more_include_directories{};  // headers that the first one lacks
  std::string nvrtc_library;
  std::string nvrtc_builtins;
  std::string nvcc;           // optional
  std::string ptxas;          // optional
  std::string cupti_library;  // optional
  // Optional: both or neither, from one folder.
  std::string cublas_library;
  std::string cublaslt_library;
};

// Returns folders that may contain a toolkit, best first. If `home` or else KERNELCAST_CUDA_HOME is
// set, it is the only one. Otherwise: CUDA_HOME, CUDA_PATH, `program_folder`/../cuda, the entries
// of LD_LIBRARY_PATH, /usr/local/cuda and /usr, and NVIDIA's packages for Python in the environment
// of the interpreter `python`, newest first.
std::vector<std::string> CudaHomes(const std::string& home, const std::string& program_folder,
                                   const std::string& python = "");

// Returns the first of `homes` that has NVRTC of CUDA 12.8 or later, its built-ins and the headers.
// NOT_FOUND: lists what is missing in each.
[[nodiscard]] absl::StatusOr<CudaToolkit> FindCudaToolkit(const std::vector<std::string>& homes);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_API_CUDA_TOOLKIT_H_
