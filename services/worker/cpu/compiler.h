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
#include "services/worker/native/toolchain.h"

namespace kernelcast::worker {

struct CompilerOptions {
  std::string work_directory;  // a folder of its own for each compile is made in it
  // Folders that hold kernelcast/candidate.h and dlpack/dlpack.h.
  std::vector<std::string> include_directories;
  CompilerLimits limits = {};
  int64_t max_warning_bytes = 16 << 10;
};

// Turns a source into a shared object and its facts: to assembly, of which the facts are read, and
// from there to the object, so that the compiler proper runs once. Immutable; thread-safe.
class CpuCompiler {
 public:
  CpuCompiler(Toolchain toolchain, CompilerOptions options)
      : toolchain_(std::move(toolchain)), options_(std::move(options)) {}

  const Toolchain& toolchain() const { return toolchain_; }

  // "a_" and 32 hex digits over source, flags, toolchain and architecture.
  std::string ArtifactId(const std::string& source, const std::vector<std::string>& flags) const;

  // A source that does not compile is a result. CANCELLED, DEADLINE_EXCEEDED: the token was
  // stopped. UNAVAILABLE: no process or disk space to be had.
  [[nodiscard]] absl::StatusOr<CompileResult> Compile(const std::string& source,
                                                      const std::vector<std::string>& flags,
                                                      const CancelToken& cancel) const;

 private:
  absl::StatusOr<CompilerStep> Run(const std::vector<std::string>& arguments,
                                   const std::string& directory, const CancelToken& cancel) const;
  absl::StatusOr<CompileResult> CompileIn(const WorkFolder& folder, const std::string& source,
                                          const std::vector<std::string>& flags,
                                          const CancelToken& cancel) const;

  const Toolchain toolchain_;
  const CompilerOptions options_;
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CPU_COMPILER_H_
