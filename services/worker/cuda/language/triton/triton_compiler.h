#ifndef KERNELCAST_SERVICES_WORKER_CUDA_LANGUAGE_TRITON_TRITON_COMPILER_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_LANGUAGE_TRITON_TRITON_COMPILER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/domain/candidate.h"
#include "common/domain/problem.h"
#include "services/worker/artifacts/compile_cache.h"
#include "services/worker/core/cancel.h"
#include "services/worker/core/target.h"
#include "services/worker/cuda/api/cuda_toolkit.h"
#include "services/worker/cuda/language/compile_server/compile_server.h"
#include "services/worker/cuda/language/language.h"
#include "services/worker/cuda/language/triton/triton_plan.h"
#include "services/worker/native/compiler_step.h"

namespace kernelcast::worker {

struct TritonCompilerOptions {
  std::string python;  // interpreter that has Triton
  CudaToolkit toolkit;
  std::string work_directory;
  CompilerSandbox sandbox;  // read_only is filled in
  int64_t timeout_ns = 60'000'000'000;
  CompilerLimits assembler_limits = {.timeout_ns = 60'000'000'000,
                                     .max_memory_bytes = int64_t{6} << 30,
                                     .max_file_bytes = 64 << 20};
};

// Compiles device Triton candidates: Triton makes PTX in the sandbox of CompileServer, and the
// toolkit's ptxas, in a sandbox of its own, makes the cubin of exactly this PTX. All facts are read
// from the two. Needs no GPU. Thread-safe.
class TritonCompiler {
 public:
  // `cache` stores results and must outlive the compiler. UNAVAILABLE: says what is missing.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<TritonCompiler>> Make(
      TritonCompilerOptions options, CompileCache& cache);

  // Versions of Triton, Python and ptxas.
  const std::string& description() const { return description_; }

  // Returns "a_" and 32 hex digits: a hash of problem, source, launches, tunables, toolchain and
  // architecture.
  std::string ArtifactId(const Candidate& candidate, const std::string& architecture) const;

  // Blocks. Uses the cache. The artefact is a DeviceArtifact. What does not compile or fit is a
  // result. Launch facts are those of the first bench shape.
  // CANCELLED, DEADLINE_EXCEEDED: the token was stopped. UNAVAILABLE: a compiler does not work
  // here.
  [[nodiscard]] absl::StatusOr<CompileResult> Compile(const CompileJob& job,
                                                      const CancelToken& cancel);

 private:
  TritonCompiler(TritonCompilerOptions options, CompileCache& cache)
      : options_(std::move(options)), cache_(cache) {}

  absl::Status ProbeAssembler();
  absl::StatusOr<CompileResult> CompileFresh(const Candidate& candidate, const TritonPlan& plan,
                                             const std::string& architecture,
                                             const CancelToken& cancel);
  absl::StatusOr<CompilerStep> RunAssembler(const std::vector<std::string>& arguments,
                                            const std::string& directory,
                                            const CompilerLimits& limits,
                                            const CancelToken& cancel) const;
  // Assembles a correct program with the arguments of the assembler.
  absl::StatusOr<CompilerStep> RunControl(const std::vector<std::string>& arguments,
                                          const std::string& architecture,
                                          const CancelToken& cancel) const;

  // Constant once made.
  TritonCompilerOptions options_;
  CompileCache& cache_;
  std::unique_ptr<CompileServer> server_;
  std::string assembler_;
  std::vector<std::string> assembler_flags_;
  uint64_t ptx_version_ = 0;
  std::string description_;
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_LANGUAGE_TRITON_TRITON_COMPILER_H_
