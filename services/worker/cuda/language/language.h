#ifndef KERNELCAST_SERVICES_WORKER_CUDA_LANGUAGE_LANGUAGE_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_LANGUAGE_LANGUAGE_H_

#include <string>

#include "absl/status/statusor.h"
#include "common/domain/candidate.h"
#include "common/domain/problem.h"
#include "services/worker/core/cancel.h"
#include "services/worker/core/target.h"
#include "services/worker/cuda/judge/cuda_program.h"
#include "services/worker/python/task_programs.h"

namespace kernelcast::worker {

// The GPU for which a candidate is compiled.
struct GpuModelWanted {
  std::string name;
  std::string architecture;
  // Whether launches of Python candidates are recorded, which takes longer than measuring them.
  bool record_launches = false;
};

// A candidate, and what it is compiled for. `target` is the problem's for GPUs.
struct CompileJob {
  const Problem& problem;
  const ProblemTarget& target;
  const Candidate& candidate;
  const GpuModelWanted& gpu;
};

// A language in which candidates for GPUs are written: how they are compiled, and what is loaded of
// them. A language is a folder here and a row in CudaCompilers. Thread-safe.
class Language {
 public:
  virtual ~Language() = default;

  // The compilers with their versions.
  virtual const std::string& toolchain() const = 0;

  // Which artefact the candidate compiles to: "a_" and 32 hex digits.
  virtual std::string ArtifactId(const Candidate& candidate,
                                 const std::string& architecture) const = 0;

  // Blocks. Uses the cache. A source that does not compile, or whose launches have no plan at some
  // shape, is a result. Facts include the simulation of the launches at the timed shapes.
  // CANCELLED, DEADLINE_EXCEEDED: the token was stopped. UNAVAILABLE: a compiler does not work.
  [[nodiscard]] virtual absl::StatusOr<CompileResult> Compile(const CompileJob& job,
                                                              const CancelToken& cancel) = 0;

  // What runs of an artefact. `task` is null unless the problem is a Python task.
  // INVALID_ARGUMENT: the artefact is not one of the language, or not the candidate's.
  [[nodiscard]] virtual absl::StatusOr<CudaProgram> Load(const Candidate& candidate,
                                                         const Artifact& artifact,
                                                         const PythonTaskPrograms* task) const = 0;
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_LANGUAGE_LANGUAGE_H_
