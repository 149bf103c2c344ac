#ifndef KERNELCAST_SERVICES_WORKER_CUDA_LANGUAGE_PYTORCH_LAUNCH_RECORDER_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_LANGUAGE_PYTORCH_LAUNCH_RECORDER_H_

#include <string>

#include "absl/status/statusor.h"
#include "common/domain/problem.h"
#include "services/worker/core/cancel.h"
#include "services/worker/cuda/language/compile_server/compile_server.h"
#include "services/worker/native/compiler_step.h"
#include "services/worker/python/interpreter.h"
#include "services/worker/python/recording.h"
#include "services/worker/python/task_programs.h"

namespace kernelcast::worker {

// The GPU that a candidate sees while it is recorded.
struct RecordedGpu {
  std::string name;
  int multiprocessors = 0;
  int capability_major = 0;
  int capability_minor = 0;
};

// Runs Python candidates without a GPU, and without Triton, and records what they launch: in a
// process of CompileServer, on tensors that have shapes and no values. Needs PyTorch, of any build.
// Thread-safe.
class LaunchRecorder {
 public:
  // An empty folder is made in `work_directory`.
  LaunchRecorder(PythonInterpreter python, CompilerSandbox sandbox, std::string work_directory);

  // Blocks until PyTorch is imported, so that the first recording does not wait for it.
  // UNAVAILABLE: no process can be started. Returns the token's status when it is stopped.
  [[nodiscard]] absl::Status Start(const CancelToken& cancel) { return server_.Warm(cancel); }

  // Blocks. The first one waits until PyTorch is imported. Records a call of the candidate, or of
  // the task's own reference if `source` is the task, at one of the task's cases. A candidate that
  // fails or cannot be recorded is a result. UNAVAILABLE: no process can be started. Returns the
  // token's status when it is stopped.
  [[nodiscard]] absl::StatusOr<Recording> Record(const PythonTask& task, size_t case_index,
                                                 const std::string& source, const RecordedGpu& gpu,
                                                 const CancelToken& cancel);

  // Blocks as Record. Finds out what the task's tensors are, without secret cases.
  // FAILED_PRECONDITION: its shapes depend on values, or it is not supported. Other errors are
  // those of Record.
  [[nodiscard]] absl::StatusOr<PythonTaskPrograms> Describe(const Problem& problem,
                                                            const RecordedGpu& gpu,
                                                            const CancelToken& cancel);

 private:
  // What the program answers, or why it answers nothing.
  struct Answer {
    std::string text;
    std::string not_recorded;
  };
  absl::StatusOr<Answer> Ask(const PythonTask& task, const char* role, size_t case_index,
                             const std::string& candidate, const RecordedGpu& gpu,
                             const CancelToken& cancel);

  CompileServer server_;
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_LANGUAGE_PYTORCH_LAUNCH_RECORDER_H_
