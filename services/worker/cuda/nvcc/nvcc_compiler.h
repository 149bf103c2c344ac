#ifndef KERNELCAST_SERVICES_WORKER_CUDA_NVCC_NVCC_COMPILER_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_NVCC_NVCC_COMPILER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/worker/artifacts/compile_cache.h"
#include "services/worker/core/cancel.h"
#include "services/worker/core/target.h"
#include "services/worker/cuda/api/cuda_toolkit.h"
#include "services/worker/native/compiler_step.h"
#include "services/worker/native/toolchain.h"

namespace kernelcast::worker {

struct NvccOptions {
  CudaToolkit toolkit;
  std::string host_compiler = "g++";
  std::string work_directory;  // a folder of its own for each compile is made in it
  // Folders that hold kernelcast/candidate.h and, unless the system does, dlpack/dlpack.h.
  std::vector<std::string> include_directories;
  CompilerLimits limits = {.timeout_ns = 60'000'000'000,
                           .max_memory_bytes = int64_t{6} << 30,
                           .max_file_bytes = 64 << 20};
  int64_t max_warning_bytes = 16 << 10;
};

// Compiles host-launched CUDA candidates with nvcc and the system's C++ compiler to shared objects
// with the entry of kernelcast/candidate.h, and reads the facts of their device code. Their host
// code is taken as strangers': sources and what the compilers make of them pass the same checks as
// candidates of the cpu target. Needs no GPU. Thread-safe.
class NvccCompiler {
 public:
  // `cache`, which must outlive the compiler, keeps results. UNAVAILABLE: what is missing.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<NvccCompiler>> Make(NvccOptions options,
                                                                          CompileCache& cache);

  // Versions of both compilers, base flags.
  const std::string& description() const { return description_; }

  // "a_" and 32 hex digits over source, flags, toolchain and architecture.
  std::string ArtifactId(const std::string& source, const std::vector<std::string>& flags,
                         const std::string& architecture) const;

  // Blocks. From the cache where it has been compiled before. A source that does not compile is a
  // result; so is one that defines no kernelcast_run. The facts are of schema cuda-ptx/1, those of
  // launches 0. CANCELLED, DEADLINE_EXCEEDED: the token was stopped. UNAVAILABLE: no process or
  // disk space to be had.
  [[nodiscard]] absl::StatusOr<CompileResult> Compile(const std::string& source,
                                                      const std::vector<std::string>& flags,
                                                      const std::string& architecture,
                                                      const CancelToken& cancel);

 private:
  NvccCompiler(NvccOptions options, Toolchain host, CompileCache& cache)
      : options_(std::move(options)), host_(std::move(host)), cache_(cache) {}

  absl::StatusOr<CompileResult> CompileFresh(const std::string& source,
                                             const std::vector<std::string>& flags,
                                             const std::string& architecture,
                                             const CancelToken& cancel);
  absl::StatusOr<CompileResult> CompileIn(const WorkFolder& folder,
                                          const std::vector<std::string>& flags,
                                          const std::string& architecture,
                                          const CancelToken& cancel);

  const NvccOptions options_;
  const Toolchain host_;
  CompileCache& cache_;
  std::string description_;
  std::string runtime_folder_;               // with libcudart_static.a
  std::vector<std::string> header_folders_;  // that sources may include from
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_NVCC_NVCC_COMPILER_H_
