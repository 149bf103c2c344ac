#ifndef KERNELCAST_SERVICES_WORKER_PYTHON_PYTHON_COMPILER_H_
#define KERNELCAST_SERVICES_WORKER_PYTHON_PYTHON_COMPILER_H_

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "common/domain/problem.h"
#include "services/worker/core/cancel.h"
#include "services/worker/core/target.h"
#include "services/worker/native/compiler_step.h"
#include "services/worker/python/interpreter.h"

namespace kernelcast::worker {

// Checks the sources of Python candidates without running them: syntax, and that the source defines
// what its task's format asks for. Immutable and thread-safe.
class PythonCompiler {
 public:
  // `sandbox.read_only` is filled in. `work_directory`: folders are made in it. `builds_sources`:
  // whether candidates' processes may build the sources in C++ and CUDA of a solution.
  PythonCompiler(PythonInterpreter python, CompilerSandbox sandbox, std::string work_directory,
                 bool builds_sources);

  std::string ArtifactId(const std::string& source) const;
  const std::string& toolchain() const { return toolchain_; }

  // The artefact is the source, with a log if it may be a task and is no candidate. UNAVAILABLE:
  // the interpreter does not work. Returns the token's status when it is stopped.
  [[nodiscard]] absl::StatusOr<CompileResult> Compile(const PythonTask& task,
                                                      const std::string& architecture,
                                                      const std::string& source,
                                                      const CancelToken& cancel) const;

  // Makes `result`, which may come from a cache, a compile error if the source may only be a task
  // and is not that of this problem.
  static void RefuseTasks(const Problem& problem, const Candidate& candidate,
                          CompileResult& result);

 private:
  const PythonInterpreter python_;
  CompilerSandbox sandbox_;
  const std::string work_directory_;
  const bool builds_sources_;
  std::string toolchain_;
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_PYTHON_PYTHON_COMPILER_H_
