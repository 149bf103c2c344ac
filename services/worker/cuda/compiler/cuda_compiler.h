#ifndef KERNELCAST_SERVICES_WORKER_CUDA_COMPILER_CUDA_COMPILER_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_COMPILER_CUDA_COMPILER_H_

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/worker/artifacts/compile_cache.h"
#include "services/worker/core/cancel.h"
#include "services/worker/core/target.h"
#include "services/worker/cuda/compiler/compiler_process.h"
#include "services/worker/cuda/compiler/header_archive.h"
#include "services/worker/cuda/compiler/ptx_facts.h"
#include "services/worker/cuda/compiler/simulation_plan.h"

namespace kernelcast::worker {

struct CudaCompilerOptions {
  CompilerProcessOptions process;
  // Compiles at one time, each in a process of its own; further callers wait.
  int max_processes = 1;
  // A process is replaced by a fresh one after so many.
  int compiles_per_process = 500;
  int64_t timeout_ns = 30'000'000'000;
  // Of the virtual GPU, for all shapes; it is bounded in steps and takes milliseconds.
  int64_t simulation_timeout_ns = 2'000'000'000;
  int64_t max_log_bytes = 64 << 10;
  int64_t max_warning_bytes = 16 << 10;
};

struct CudaToolchain {
  std::string description;                 // version, base flags, and a hash of the headers
  std::string nvrtc_version;               // e.g. "13.0.88"
  std::vector<std::string> architectures;  // "sm_80", ..., and those with suffix 'a' that there are

  // What to compile for where a device reports a compute capability: the one with all of its
  // features, e.g. "sm_90a" for 9.0. Nothing where this NVRTC does not know the device.
  std::optional<std::string> ArchitectureOf(int major, int minor) const;
};

// Turns device CUDA into cubins and their facts with NVRTC, in processes that are kept warm and
// can open no file. Needs no GPU. Thread-safe.
class CudaCompiler {
 public:
  // Starts the first process. `cache`, which must outlive the compiler, keeps results. UNAVAILABLE:
  // what is missing.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<CudaCompiler>> Make(
      CudaCompilerOptions options, CompileCache& cache);
  ~CudaCompiler();
  CudaCompiler(const CudaCompiler&) = delete;
  CudaCompiler& operator=(const CudaCompiler&) = delete;

  const CudaToolchain& toolchain() const { return toolchain_; }
  // Protections that this machine does not grant to the compiler's processes.
  const std::vector<std::string>& missing_protections() const { return missing_protections_; }

  // "a_" and 32 hex digits over source, flags, toolchain and architecture; not over launches,
  // which do not change the cubin.
  std::string ArtifactId(const std::string& source, const std::vector<std::string>& flags,
                         const std::string& architecture) const;

  // Blocks. From the cache where it has been compiled before. Every launch's kernel must be in the
  // cubin; the facts of launches are those of `launches`. A source that does not compile, that
  // lacks a kernel, or an architecture that NVRTC does not know, is a result. CANCELLED,
  // DEADLINE_EXCEEDED: the token was stopped. UNAVAILABLE: no process to be had.
  [[nodiscard]] absl::StatusOr<CompileResult> Compile(const std::string& source,
                                                      const std::vector<std::string>& flags,
                                                      std::span<const LaunchShape> launches,
                                                      const std::string& architecture,
                                                      const CancelToken& cancel);

  // What the virtual GPU makes of a compiled program's launches, a shape after the other, for the
  // GPU that `device` names, or else one of the architecture. `ptx_text` is that of the result of
  // Compile. Simulations that take too long or end the process are launches that are not covered.
  // Empty where there is no such GPU. Errors as of Compile.
  [[nodiscard]] absl::StatusOr<std::vector<ShapeSimulation>> Simulate(
      const std::string& ptx_text, std::vector<SimulationPlan> plans, const std::string& device,
      const std::string& architecture, const CancelToken& cancel);

  // What the cache holds of that id.
  std::optional<Artifact> Find(const std::string& artifact_id) { return cache_.Find(artifact_id); }

 private:
  CudaCompiler(CudaCompilerOptions options, CompileCache& cache)
      : options_(std::move(options)), cache_(cache) {}

  absl::StatusOr<std::unique_ptr<CompilerProcess>> TakeProcess(const CancelToken& cancel);
  // nullptr: it is gone.
  void ReturnProcess(std::unique_ptr<CompilerProcess> process);
  absl::StatusOr<CompileResult> CompileFresh(const std::string& source,
                                             const std::vector<std::string>& flags,
                                             const std::string& architecture,
                                             const CancelToken& cancel);

  const CudaCompilerOptions options_;
  CompileCache& cache_;
  // Constant after construction.
  std::unique_ptr<HeaderArchive> headers_;
  CudaToolchain toolchain_;
  std::vector<std::string> missing_protections_;

  std::mutex mutex_;
  std::condition_variable returned_;
  // State below is protected by mutex_.
  std::vector<std::unique_ptr<CompilerProcess>> idle_;
  int processes_ = 0;  // idle, at work, and being started
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_COMPILER_CUDA_COMPILER_H_
