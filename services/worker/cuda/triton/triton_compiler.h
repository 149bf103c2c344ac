#ifndef KERNELCAST_SERVICES_WORKER_CUDA_TRITON_TRITON_COMPILER_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_TRITON_TRITON_COMPILER_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/domain/candidate.h"
#include "common/domain/problem.h"
#include "services/worker/artifacts/compile_cache.h"
#include "services/worker/core/cancel.h"
#include "services/worker/core/target.h"
#include "services/worker/cuda/api/cuda_toolkit.h"
#include "services/worker/cuda/triton/triton_plan.h"
#include "services/worker/cuda/triton/triton_server.h"
#include "services/worker/native/compiler_step.h"

namespace kernelcast::worker {

// 90 for "sm_90a". 0: not an architecture.
uint64_t ArchitectureNumber(const std::string& architecture);

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

// Compiles device Triton candidates: Triton makes PTX in the sandbox of TritonServer, and the
// toolkit's ptxas, in a sandbox of its own, makes the cubin of exactly this PTX. All facts are read
// from the two. Needs no GPU. Thread-safe.
class TritonCompiler {
 public:
  // `cache` stores results and must outlive the compiler. UNAVAILABLE: says what is missing.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<TritonCompiler>> Make(
      TritonCompilerOptions options, CompileCache& cache);

  // Versions of Triton, Python and ptxas.
  const std::string& description() const { return description_; }
  // Such as "Triton 3.9.0".
  const std::string& name() const { return name_; }

  // Returns "a_" and 32 hex digits: a hash of problem, source, launches, tunables, toolchain and
  // architecture.
  std::string ArtifactId(const Candidate& candidate, const std::string& architecture) const;

  // Blocks. Uses the cache. The artefact contains the launches, which TritonLaunches returns. What
  // does not compile or fit is a result. Launch facts are those of the first bench shape.
  // CANCELLED, DEADLINE_EXCEEDED: the token was stopped. UNAVAILABLE: a compiler does not work
  // here.
  [[nodiscard]] absl::StatusOr<CompileResult> Compile(const Problem& problem,
                                                      const ProblemTarget& target,
                                                      const Candidate& candidate,
                                                      const std::string& architecture,
                                                      const CancelToken& cancel);

 private:
  TritonCompiler(TritonCompilerOptions options, CompileCache& cache)
      : options_(std::move(options)), cache_(cache) {}

  absl::Status ProbeAssembler();
  // Starts the server if there is none that lives.
  absl::StatusOr<std::shared_ptr<TritonServer>> Server(const CancelToken& cancel);
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

  TritonCompilerOptions options_;  // constant once made
  CompileCache& cache_;
  PythonInterpreter python_;
  std::string assembler_;
  std::vector<std::string> assembler_flags_;
  uint64_t ptx_version_ = 0;
  std::string name_;
  std::string description_;

  std::mutex mutex_;
  // Shared by the compilations that use it; replaced if it ends. Protected by mutex_.
  std::shared_ptr<TritonServer> server_;
};

// The cubin and the launches that are in the artefact of a device Triton candidate.
struct TritonArtifact {
  std::string cubin;
  std::vector<Launch> launches;  // as of a device CUDA candidate
};

std::string EncodeTritonArtifact(const TritonArtifact& artifact);
// INVALID_ARGUMENT: the content is not of this form.
[[nodiscard]] absl::StatusOr<TritonArtifact> DecodeTritonArtifact(std::string_view content);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_TRITON_TRITON_COMPILER_H_
