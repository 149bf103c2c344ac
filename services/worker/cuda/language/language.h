#ifndef KERNELCAST_SERVICES_WORKER_CUDA_LANGUAGE_LANGUAGE_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_LANGUAGE_LANGUAGE_H_

#include <functional>
#include <future>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/domain/candidate.h"
#include "common/domain/problem.h"
#include "services/worker/artifacts/compile_cache.h"
#include "services/worker/core/cancel.h"
#include "services/worker/core/target.h"
#include "services/worker/cuda/api/cuda_toolkit.h"
#include "services/worker/cuda/compiler/cuda_compiler.h"
#include "services/worker/cuda/judge/cuda_program.h"
#include "services/worker/native/compiler_step.h"
#include "services/worker/python/interpreter.h"
#include "services/worker/python/task_programs.h"

namespace kernelcast::worker {

// The GPU that a candidate is compiled for.
struct CompileGpu {
  std::string name;
  std::string architecture;
  // Whether to record launches of Python candidates, for their forecasts.
  bool record_launches = false;
};

// The input of a compilation. `target` is the problem's cuda target.
struct CompileJob {
  const Problem& problem;
  const ProblemTarget& target;
  const Candidate& candidate;
  const CompileGpu& gpu;
};

// Compiles candidates for GPUs that are written in one language, and loads their artefacts. Each
// language has a folder here and a row in AllLanguages. Thread-safe.
class Language {
 public:
  virtual ~Language() = default;

  // Names and versions of the compilers.
  virtual const std::string& toolchain() const = 0;

  // Returns the id of the artefact: "a_" and 32 hex digits.
  virtual std::string ArtifactId(const Candidate& candidate,
                                 const std::string& architecture) const = 0;

  // Blocks. Uses the cache. A source that does not compile, or whose launches have no plan at some
  // shape, is a result. Facts include the simulation of the launches at the timed shapes.
  // CANCELLED, DEADLINE_EXCEEDED: the token was stopped. UNAVAILABLE: a compiler does not work.
  [[nodiscard]] virtual absl::StatusOr<CompileResult> Compile(const CompileJob& job,
                                                              const CancelToken& cancel) = 0;

  // Returns the program in an artefact. `task` is null unless the problem is a Python task.
  // INVALID_ARGUMENT: the artefact is not of this language, or not of this candidate.
  [[nodiscard]] virtual absl::StatusOr<CudaProgram> Load(const Candidate& candidate,
                                                         const Artifact& artifact,
                                                         const PythonTaskPrograms* task) const = 0;
};

// What languages are opened with. The cache and the compiler must outlive them.
struct LanguageSetup {
  std::string python;  // interpreter for kernels and tasks in Python; empty: none
  std::string host_compiler;
  std::vector<std::string> include_directories;  // contain kernelcast/candidate.h
  std::string work_directory;
  CudaToolkit toolkit;
  CompilerSandbox sandbox;
  CompileCache& cache;
  CudaCompiler& nvrtc;
  CudaCompilerOptions nvrtc_options;  // of `nvrtc`, for compilers with other headers
  // The interpreter, if it has PyTorch.
  std::shared_future<absl::StatusOr<PythonInterpreter>> torch;
  // Returns another language. UNIMPLEMENTED: it is missing. For use in Compile.
  std::function<absl::StatusOr<Language*>(CandidateKind)> find;
};

// A language of the cuda target.
struct LanguageRow {
  CandidateKind kind;
  std::string_view candidates;  // name of its candidates in messages
  // Whether no code of its candidates runs on the host when they are measured. Tasks take them too.
  bool is_device_code;
  // UNAVAILABLE: this machine lacks its compiler; says what is missing.
  absl::StatusOr<std::unique_ptr<Language>> (*open)(const LanguageSetup& setup);
};

std::span<const LanguageRow> AllLanguages();

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_LANGUAGE_LANGUAGE_H_
