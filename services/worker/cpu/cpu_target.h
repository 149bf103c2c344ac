#ifndef KERNELCAST_SERVICES_WORKER_CPU_CPU_TARGET_H_
#define KERNELCAST_SERVICES_WORKER_CPU_CPU_TARGET_H_

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "services/worker/artifacts/compile_cache.h"
#include "services/worker/core/options.h"
#include "services/worker/core/problem_faults.h"
#include "services/worker/core/speedup_interval.h"
#include "services/worker/core/target.h"
#include "services/worker/cpu/compiler.h"
#include "services/worker/cpu/judge.h"
#include "services/worker/cpu/placement.h"
#include "services/worker/cpu/prepared_problem.h"
#include "services/worker/cpu/runner_process.h"
#include "services/worker/lease/timing_lease.h"
#include "services/worker/python/python_compiler.h"

namespace kernelcast::worker {

struct CpuTargetOptions {
  std::string compiler = "g++";
  std::string cache_directory;
  int64_t max_cache_bytes = int64_t{1} << 30;
  // Folders with headers that candidates may include in addition to the toolchain's.
  std::vector<std::string> include_directories;
  // Lock file shared by the workers of this machine. "": the lease covers only this process.
  std::string lease_file;
  std::string worker_id;
  // Interpreter that has PyTorch, for Python tasks and candidates; "": none.
  std::string python;
  RunnerOptions runner;
  std::string compiler_sandbox;  // kernelcast-compiler-sandbox; "": the one in the runner's folder
  MeasureOptions measure;
  // Number of problems whose inputs and reference are kept ready.
  int prepared_problems = 4;
};

// Target for C++ candidates, and PyTorch ones if there is an interpreter, on this machine's
// processor.
class CpuTarget final : public Target {
 public:
  // Tests compiler and runner on a trivial kernel; Describe reports what is missing. UNAVAILABLE:
  // the cache folder is unusable. INTERNAL: the lease file is unusable.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<CpuTarget>> Make(CpuTargetOptions options);
  ~CpuTarget() override;

  TargetInfo Describe() const override;
  absl::StatusOr<CompileResult> Compile(const CompileRequest& request,
                                        const CancelToken& cancel) override;
  absl::StatusOr<Artifact> Resolve(const Candidate& candidate, const Artifact& sent) override;
  absl::StatusOr<Measurement> Measure(const MeasureRequest& request,
                                      const CancelToken& cancel) override;

 private:
  explicit CpuTarget(CpuTargetOptions options)
      : options_(std::move(options)), spread_(options_.measure.spread) {}

  void ProbeToolchain();
  void ProbeRunner();
  void ProbePython();
  absl::StatusOr<CompileResult> CompileCandidate(const Problem& problem, const Candidate& candidate,
                                                 const CancelToken& cancel);
  absl::StatusOr<CompileResult> CompileSource(const std::string& source,
                                              const std::vector<std::string>& flags,
                                              const CancelToken& cancel);
  absl::StatusOr<LoadableObject> CompileTrusted(const std::string& source,
                                                const std::vector<std::string>& flags,
                                                const std::string& what, const CancelToken& cancel);
  // The input for measuring a candidate besides its problem's preparation.
  struct Programs {
    LoadableObject candidate;
    LoadableObject oracle;
    LoadableObject reference;
  };
  absl::StatusOr<Programs> NativePrograms(const Problem& problem, const Artifact& artifact,
                                          const CancelToken& cancel);
  absl::StatusOr<PreparedProblem*> Prepare(const Problem& problem, const Programs& programs,
                                           const CancelToken& cancel);
  // Drops other prepared problems where memory is short. FAILED_PRECONDITION is kept in
  // `faults_` where it is the problem's.
  absl::StatusOr<std::unique_ptr<PreparedProblem>> PrepareAnew(const Problem& problem,
                                                               const Programs& programs,
                                                               const CancelToken& cancel);
  // Drops all prepared problems but the one in use. Returns false if there were no others.
  bool DropOthers();
  // Prepares the problem where necessary, and judges a candidate of it once.
  absl::StatusOr<MeasureOutcome> JudgeOnce(const Problem& problem, const Programs& programs,
                                           const Candidate* candidate, MeasureSpec spec,
                                           const CancelToken& cancel);

  CpuTargetOptions options_;  // constant once made
  TargetInfo info_;
  Placement placement_;
  std::unique_ptr<CpuCompiler> compiler_;
  std::unique_ptr<PythonCompiler> python_;  // null: no Python candidates
  std::unique_ptr<CompileCache> cache_;
  std::unique_ptr<TimingLease> lease_;

  // Used under the timing lease. Most recently used first.
  std::list<std::unique_ptr<PreparedProblem>> prepared_;
  RunnerSpread spread_;
  ProblemFaults faults_;
  JudgeTimes times_;        // of the last measurement
  int64_t prepare_ns_ = 0;  // in the last measurement
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CPU_CPU_TARGET_H_
