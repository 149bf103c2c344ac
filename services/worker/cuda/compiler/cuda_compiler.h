#ifndef KERNELCAST_SERVICES_WORKER_CUDA_COMPILER_CUDA_COMPILER_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_COMPILER_CUDA_COMPILER_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
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
#include "services/worker/cuda/compiler/simulated_outputs.h"
#include "services/worker/cuda/compiler/simulation_plan.h"

namespace kernelcast::worker {

struct CudaCompilerOptions {
  CompilerProcessOptions process;
  // Headers that sources can include besides those of the toolkit.
  std::vector<HeaderFolder> headers = {};
  // Flags of every compilation. Candidates cannot change them.
  std::vector<std::string> flags = {};
  // Maximum number of concurrent compiles, each in its own process. Further callers wait.
  int max_processes = 1;
  // A process is replaced after this many compiles.
  int compiles_per_process = 500;
  int64_t timeout_ns = 30'000'000'000;
  // Limit for the virtual GPU, over all shapes. Simulations are bounded in steps and take
  // milliseconds.
  int64_t simulation_timeout_ns = 2'000'000'000;
  int64_t max_log_bytes = 64 << 10;
  int64_t max_warning_bytes = 16 << 10;
};

struct CudaToolchain {
  std::string description;                 // version, base flags, and a hash of the headers
  std::string nvrtc_version;               // e.g. "13.0.88"
  std::vector<std::string> architectures;  // "sm_80", ..., and existing ones with suffix 'a'

  // Returns the architecture to compile for on a device with this compute capability: the one with
  // all its features, e.g. "sm_90a" for 9.0. nullopt if this NVRTC does not know the device.
  std::optional<std::string> ArchitectureOf(int major, int minor) const;
};

// A program for the virtual GPU, for one architecture: a source that Compile has compiled, or the
// PTX of another compiler.
struct SimulatedProgram {
  std::string architecture;
  std::string source = {};
  std::vector<std::string> flags = {};
  std::string ptx = {};  // if not empty, instead of the source
};

// Compiles device CUDA to cubins and their facts with NVRTC, in processes that are kept warm and
// cannot open files. Needs no GPU. Thread-safe.
class CudaCompiler {
 public:
  // Starts the first process. `cache` stores results and must outlive the compiler. UNAVAILABLE:
  // says what is missing.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<CudaCompiler>> Make(
      CudaCompilerOptions options, CompileCache& cache);
  ~CudaCompiler();
  CudaCompiler(const CudaCompiler&) = delete;
  CudaCompiler& operator=(const CudaCompiler&) = delete;

  const CudaToolchain& toolchain() const { return toolchain_; }
  // Protections that this machine does not permit for the compiler's processes.
  const std::vector<std::string>& missing_protections() const { return missing_protections_; }

  // Returns "a_" and 32 hex digits: a hash of source, flags, toolchain and architecture. Launches
  // are not included, since they do not change the cubin.
  std::string ArtifactId(const std::string& source, const std::vector<std::string>& flags,
                         const std::string& architecture) const;

  // Blocks. Uses the cache. The kernel of every launch must be in the cubin; launch facts are those
  // of `launches`. A source that does not compile or lacks a kernel, or an architecture unknown to
  // NVRTC, is a result. CANCELLED, DEADLINE_EXCEEDED: the token was stopped. UNAVAILABLE: no
  // process can be started.
  [[nodiscard]] absl::StatusOr<CompileResult> Compile(const std::string& source,
                                                      const std::vector<std::string>& flags,
                                                      std::span<const LaunchShape> launches,
                                                      const std::string& architecture,
                                                      const CancelToken& cancel);

  // Simulates the launches of a program on the virtual GPU, for each shape in `plans`. Models the
  // GPU named by `device`, or else one of the architecture. Runs in a process that keeps the source
  // compiled, or compiles it again, so NVRTC's PTX never enters a process. A simulation that takes
  // too long or ends the process gives launches that are not covered. The launches of the first
  // simulation also carry the faults found at the shapes of `checks`, and outputs that differ from
  // the expected ones there. Returns an empty vector if no such GPU is modelled. Errors as Compile.
  [[nodiscard]] absl::StatusOr<std::vector<ShapeSimulation>> Simulate(
      const SimulatedProgram& program, std::vector<SimulationPlan> plans,
      std::vector<SimulationPlan> checks, const std::string& device, const CancelToken& cancel);

  // The cases at which the outputs of a target's candidates are compared, with what its oracle
  // computes on the virtual GPU for this architecture. Those of the latest problems are kept.
  // Errors as Compile.
  [[nodiscard]] absl::StatusOr<std::shared_ptr<const std::vector<SimulatedCase>>> CasesOf(
      const Problem& problem, const ProblemTarget& target, const std::string& architecture,
      const CancelToken& cancel);

  // Starts up to `count` processes in parallel, ahead of the compiles that need them. Returns when
  // they have started or failed.
  void StartProcesses(int count, const CancelToken& cancel);

  // Returns the cached artefact with this id.
  std::optional<Artifact> Find(const std::string& artifact_id) { return cache_.Find(artifact_id); }

 private:
  CudaCompiler(CudaCompilerOptions options, CompileCache& cache)
      : options_(std::move(options)), cache_(cache) {}

  // Prefers a process that keeps the program of this name, then the one that is idle for longest.
  absl::StatusOr<std::unique_ptr<CompilerProcess>> TakeProcess(const CancelToken& cancel,
                                                               const std::string& program = "");
  // Starts a process that is already counted in processes_.
  absl::StatusOr<std::unique_ptr<CompilerProcess>> StartProcess(const CancelToken& cancel);
  // nullptr: the process has ended.
  void ReturnProcess(std::unique_ptr<CompilerProcess> process);
  // Whether the process must be replaced because of the memory it has used.
  bool Grown(const CompilerProcess& process) const;
  compiler_wire::CompileRequest RequestOf(const std::string& source,
                                          const std::vector<std::string>& flags,
                                          const std::string& architecture) const;
  // Simulates in this process, which compiles the program at first if it does not keep it.
  CompilerProcess::End SimulateIn(CompilerProcess& process, const SimulatedProgram& program,
                                  const compiler_wire::SimulateRequest& request,
                                  const CancelToken& cancel,
                                  compiler_wire::SimulateReply& reply) const;
  // The same in any process. Returns whether it has answered for all shapes.
  absl::StatusOr<bool> RunSimulation(const SimulatedProgram& program,
                                     compiler_wire::SimulateRequest& request,
                                     const CancelToken& cancel,
                                     compiler_wire::SimulateReply& reply);
  // Runs a program of the problem at the cases that `plan_of` has a plan for, and calls `take` with
  // what it leaves in its outputs, or why that is not known.
  absl::Status RunTrusted(
      const KernelProgram& program, const std::string& architecture,
      std::vector<SimulatedCase>& cases,
      const std::function<absl::StatusOr<SimulationPlan>(const SimulatedCase&)>& plan_of,
      const std::function<absl::Status(SimulatedCase&, std::span<const std::string>,
                                       const std::string&)>& take,
      const CancelToken& cancel);
  // Fails as a compile does; what the problem's programs cannot do is said in the cases.
  absl::Status FillCases(const Problem& problem, const ProblemTarget& target,
                         const std::string& architecture, std::vector<SimulatedCase>& cases,
                         const CancelToken& cancel);
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
  std::vector<std::unique_ptr<CompilerProcess>> idle_;  // idle for longest first
  int processes_ = 0;                                   // idle, at work, and being started
  struct KeptCases {
    std::string key;
    // Shared with the simulations that compare with them. Null while they are being computed.
    std::shared_ptr<const std::vector<SimulatedCase>> cases;
  };
  std::deque<KeptCases> cases_;  // the oldest first
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_COMPILER_CUDA_COMPILER_H_
