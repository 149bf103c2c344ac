#ifndef KERNELCAST_SERVICES_WORKER_CPU_COMPILER_H_
#define KERNELCAST_SERVICES_WORKER_CPU_COMPILER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/worker/core/cancel.h"
#include "services/worker/core/target.h"
#include "services/worker/native/compiler_step.h"
#include "services/worker/native/step_verdict.h"
#include "services/worker/native/toolchain.h"

namespace kernelcast::worker {

struct CompilerOptions {
  std::string work_directory;  // each compile makes its own folder in it
  // Folders that contain kernelcast/candidate.h and dlpack/dlpack.h.
  std::vector<std::string> include_directories;
  // The toolchain and include_directories are added to read_only if missing.
  CompilerSandbox sandbox;
  CompilerLimits limits = {};
  int64_t max_warning_bytes = 16 << 10;
};

// Compiles a source to a shared object and its facts, in sandboxed steps: assembly (facts are read
// from it), relocatable object, shared object. Each output is checked before the next step. The
// compiler proper runs once. Immutable; thread-safe.
class CpuCompiler {
 public:
  CpuCompiler(Toolchain toolchain, CompilerOptions options);

  const Toolchain& toolchain() const { return toolchain_; }
  // Returns the protections of the compiler sandbox that this machine does not permit. UNAVAILABLE:
  // the sandbox does not work.
  [[nodiscard]] absl::StatusOr<std::vector<std::string>> MissingProtections() const;

  // Returns "a_" and 32 hex digits: a hash of source, flags, toolchain and architecture.
  std::string ArtifactId(const std::string& source, const std::vector<std::string>& flags) const;

  // A source that does not compile is a result. CANCELLED, DEADLINE_EXCEEDED: the token was
  // stopped. UNAVAILABLE: the compiler does not work, e.g. because the disk is full.
  [[nodiscard]] absl::StatusOr<CompileResult> Compile(const std::string& source,
                                                      const std::vector<std::string>& flags,
                                                      const CancelToken& cancel) const;

 private:
  absl::StatusOr<CompilerStep> Run(const std::string& program,
                                   const std::vector<std::string>& arguments,
                                   const std::string& directory, Evidence evidence,
                                   const CancelToken& cancel) const;
  // Compiles and links a correct source.
  absl::StatusOr<CompilerStep> RunControl(const CancelToken& cancel) const;
  absl::StatusOr<CompileResult> CompileIn(const WorkFolder& folder, const std::string& source,
                                          const std::vector<std::string>& flags,
                                          const CancelToken& cancel) const;

  const Toolchain toolchain_;
  const CompilerOptions options_;
  CompilerSandbox sandbox_;  // constant after construction
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CPU_COMPILER_H_
