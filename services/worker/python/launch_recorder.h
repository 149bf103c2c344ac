#ifndef KERNELCAST_SERVICES_WORKER_PYTHON_LAUNCH_RECORDER_H_
#define KERNELCAST_SERVICES_WORKER_PYTHON_LAUNCH_RECORDER_H_

#include <string>

#include "absl/status/statusor.h"
#include "common/domain/problem.h"
#include "services/worker/core/cancel.h"
#include "services/worker/native/compiler_step.h"
#include "services/worker/python/interpreter.h"
#include "services/worker/python/recording.h"

namespace kernelcast::worker {

// The GPU that a candidate sees while it is recorded.
struct RecordedGpu {
  std::string name;
  int multiprocessors = 0;
  int capability_major = 0;
  int capability_minor = 0;
};

// Runs Python candidates without a GPU, and without Triton, and records what they launch: in a
// process of the compilers' sandbox, on tensors that have shapes and no values. Needs PyTorch, of
// any build. Immutable and thread-safe.
class LaunchRecorder {
 public:
  // `sandbox.read_only` is filled in. `work_directory`: folders are made in it.
  LaunchRecorder(PythonInterpreter python, CompilerSandbox sandbox, std::string work_directory);

  // Blocks, for about as long as PyTorch takes to be imported. Records a call of the candidate, or
  // of the task's own reference if `source` is the task, at one of the task's cases. A candidate
  // that fails or cannot be recorded is a result. UNAVAILABLE: no process can be started. Returns
  // the token's status when it is stopped.
  [[nodiscard]] absl::StatusOr<Recording> Record(const PythonTask& task, size_t case_index,
                                                 const std::string& source, const RecordedGpu& gpu,
                                                 const CancelToken& cancel) const;

 private:
  const PythonInterpreter python_;
  CompilerSandbox sandbox_;
  const std::string work_directory_;
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_PYTHON_LAUNCH_RECORDER_H_
