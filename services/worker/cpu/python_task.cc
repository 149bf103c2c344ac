#include "services/worker/cpu/python_task.h"

#include "common/base/status.h"
#include "services/worker/cpu/python_task_process.h"

namespace kernelcast::worker {

static_assert(kMaxTaskTensors <= size_t{runner::kMaxTensors} &&
              kMaxTaskDimensions <= size_t{runner::kMaxDimensions});

absl::StatusOr<PythonTaskPrograms> DescribePythonTask(const Problem& problem,
                                                      const RunnerOptions& options,
                                                      const Placement& placement,
                                                      uint64_t held_out_seed,
                                                      const CancelToken& cancel) {
  KC_ASSIGN_OR_RETURN(const MemoryFile inputs,
                      MemoryFile::Create("kernelcast-task", 1, MemoryFile::Sharing::kReadOnly));
  KC_ASSIGN_OR_RETURN(
      const MemoryFile outputs,
      MemoryFile::Create("kernelcast-task", kDescriptionBytes, MemoryFile::Sharing::kReadWrite));
  runner::CaseRecord call{};
  call.outputs = 1;
  call.tensors[0] = BytesRecord(0, kDescriptionBytes);
  KC_ASSIGN_OR_RETURN(const auto process, RunnerProcess::Start(options, placement,
                                                               PythonTaskPrograms::DescribeProgram(
                                                                   problem, held_out_seed),
                                                               {&call, 1}, inputs, outputs));
  KC_RETURN_IF_ERROR(AwaitTaskReady(*process, "description", cancel));
  KC_RETURN_IF_ERROR(CallTask(*process, 0, "description", cancel).status());
  // The task's own process writes it, so it may be anything, and change while it is read.
  const std::string text(reinterpret_cast<const char*>(outputs.data()), kDescriptionBytes);
  return PythonTaskPrograms::Read(problem, text);
}

}  // namespace kernelcast::worker
