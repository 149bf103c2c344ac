#ifndef KERNELCAST_SERVICES_WORKER_CUDA_TARGET_CUDA_TARGET_OPTIONS_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_TARGET_CUDA_TARGET_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "services/worker/core/options.h"

namespace kernelcast::worker {

struct CudaTargetOptions {
  // Folder of NVIDIA's toolkit; empty: search for it.
  std::string cuda_home;
  // Folder of this program and of the programs that it starts. A toolkit may be in ../cuda.
  std::string program_folder;
  // GPUs to measure on, among those that the driver shows; see SelectGpus.
  std::string gpus = "all";
  // Architecture to compile for; empty: that of the device, or kDefaultArchitecture if there is
  // none.
  std::string architecture;
  std::string cache_directory;
  int64_t max_cache_bytes = int64_t{1} << 30;
  int compile_processes = 1;
  // For candidates that launch from the host: the C++ compiler used with nvcc, and the folders that
  // contain kernelcast/candidate.h.
  std::string host_compiler = "g++";
  std::vector<std::string> include_directories;
  // Interpreter that has Triton, for device_triton candidates, and PyTorch, for Python tasks;
  // empty: there are none.
  std::string python;
  // The device of PyTorch's tensors. "cpu" for a stand-in for the driver, whose memory is the
  // processor's.
  std::string python_device = "cuda";
  // User of compilers and of runners of host code when the worker is root; 0: stay root.
  uint32_t untrusted_uid = 0;
  // Limit of host memory for a candidate's host code. Processes of Python tasks and candidates may
  // use four times as much, because models are constructed on the host.
  int64_t host_memory_bytes = int64_t{2} << 30;
  // The timing lease of each device is locked by DIRECTORY/kernelcast-UUID.lock. "": leases cover
  // only this process.
  std::string lease_directory;
  std::string worker_id;
  MeasureOptions measure = CudaMeasureOptions();
  // Per device; see CudaMeasurerOptions::prepared_bytes.
  uint64_t prepared_bytes = 0;
  // Python candidates that each device loads ahead of their measurement, at most, where its memory
  // and the processors allow it.
  int load_ahead = 12;
  // A runner is replaced after this many candidates.
  int candidates_per_runner = 200;
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_TARGET_CUDA_TARGET_OPTIONS_H_
