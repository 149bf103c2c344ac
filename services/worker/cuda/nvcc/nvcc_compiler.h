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
  std::string work_directory;  // each compile makes its own folder in it
  // Folders that contain kernelcast/candidate.h and, unless it is in the system's, dlpack/dlpack.h.
  std::vector<std::string> include_directories;
  CompilerSandbox sandbox;  // read_only is filled in
  CompilerLimits limits = {.timeout_ns = 60'000'000'000,
                           .max_memory_bytes = int64_t{6} << 30,
                           .max_file_bytes = 64 << 20};
  int64_t max_warning_bytes = 16 << 10;
};

// Compiles host-launched CUDA candidates with nvcc and the system's C++ compiler to shared objects
// with the entry of kernelcast/candidate.h, and extracts the facts of their device code. Host code
// is untrusted: sources and compiler outputs pass the same checks as candidates of the cpu target.
// Needs no GPU. Thread-safe.
class NvccCompiler {
 public:
  // `cache` stores results and must outlive the compiler. UNAVAILABLE: says what is missing.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<NvccCompiler>> Make(NvccOptions options,
                                                                          CompileCache& cache);

  // Versions of both compilers and the base flags.
  const std::string& description() const { return description_; }

  // Returns "a_" and 32 hex digits: a hash of source, flags, toolchain and architecture.
  std::string ArtifactId(const std::string& source, const std::vector<std::string>& flags,
                         const std::string& architecture) const;

  // Blocks. Uses the cache. A source that does not compile or defines no kernelcast_run is a
  // result. Facts are of schema cuda-ptx/1, with launch facts 0. CANCELLED, DEADLINE_EXCEEDED: the
  // token was stopped. UNAVAILABLE: a compiler does not work, e.g. because the disk is full.
  [[nodiscard]] absl::StatusOr<CompileResult> Compile(const std::string& source,
                                                      const std::vector<std::string>& flags,
                                                      const std::string& architecture,
                                                      const CancelToken& cancel);

 private:
  NvccCompiler(NvccOptions options, Toolchain host, CompileCache& cache)
      : options_(std::move(options)), host_(std::move(host)), cache_(cache) {}

  // Adds what both compilers read to the sandbox.
  void AllowToolchain();
  absl::StatusOr<CompilerStep> Run(const std::vector<std::string>& arguments,
                                   const std::string& directory, const CompilerLimits& limits,
                                   const CancelToken& cancel) const;
  // Compiles a correct source with the arguments of nvcc.
  absl::StatusOr<CompilerStep> RunControl(const std::vector<std::string>& arguments,
                                          const CancelToken& cancel) const;
  // Links the object of a candidate, or a correct source.
  std::vector<std::string> LinkCommand(const char* input) const;
  absl::StatusOr<CompilerStep> RunLinkControl(const CancelToken& cancel) const;
  absl::StatusOr<CompileResult> CompileFresh(const std::string& source,
                                             const std::vector<std::string>& flags,
                                             const std::string& architecture,
                                             const CancelToken& cancel);
  absl::StatusOr<CompileResult> CompileIn(const WorkFolder& folder,
                                          const std::vector<std::string>& flags,
                                          const std::string& architecture,
                                          const CancelToken& cancel);

  NvccOptions options_;  // constant once made
  const Toolchain host_;
  CompileCache& cache_;
  std::string description_;
  std::string runtime_folder_;               // contains libcudart_static.a
  std::vector<std::string> header_folders_;  // folders that sources may include from
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_NVCC_NVCC_COMPILER_H_
