#ifndef KERNELCAST_SERVICES_WORKER_CUDA_TARGET_TRUSTED_PROGRAMS_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_TARGET_TRUSTED_PROGRAMS_H_

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/domain/problem.h"
#include "services/worker/core/cancel.h"
#include "services/worker/cuda/compiler/cuda_compiler.h"
#include "services/worker/cuda/target/cuda_measurer.h"

namespace kernelcast::worker {

// The compiled programs that judging a problem's candidates needs besides them: the judge's own
// kernels, the reference and the oracle. Keeps those of the latest problems. Thread-safe.
class TrustedPrograms {
 public:
  // `compiler` must outlive the programs.
  explicit TrustedPrograms(CudaCompiler& compiler) : compiler_(compiler) {}

  // Without a candidate. Python tasks need only the judge's kernels. FAILED_PRECONDITION: the
  // problem has no reference or no oracle for the target, or they do not compile.
  [[nodiscard]] absl::StatusOr<std::shared_ptr<const CudaPrograms>> Get(
      const Problem& problem, const std::string& architecture, const CancelToken& cancel);

  // The judge's kernels alone, as cubins.
  [[nodiscard]] absl::StatusOr<std::vector<std::string>> CompileJudge(
      const std::string& architecture, const CancelToken& cancel);

 private:
  absl::StatusOr<CudaProgram> CompileProgram(const KernelProgram& program, const std::string& what,
                                             const std::string& architecture,
                                             const CancelToken& cancel);
  std::shared_ptr<const CudaPrograms> Keep(const std::string& key,
                                           std::shared_ptr<const CudaPrograms> programs);

  CudaCompiler& compiler_;
  std::mutex mutex_;
  // Protected by mutex_. By problem and architecture.
  std::map<std::string, std::shared_ptr<const CudaPrograms>> programs_;
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_TARGET_TRUSTED_PROGRAMS_H_
