#ifndef KERNELCAST_SERVICES_WORKER_CPU_PYTHON_TASK_PROCESS_H_
#define KERNELCAST_SERVICES_WORKER_CPU_PYTHON_TASK_PROCESS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/worker/core/cancel.h"
#include "services/worker/core/tensor.h"
#include "services/worker/cpu/runner_process.h"
#include "services/worker/runner/control.h"

namespace kernelcast::worker {

// Processes that run a task's own code, and no candidate's.

// Waits until the process is ready; a failure is the task's. `stage` names what the process is for.
[[nodiscard]] absl::Status AwaitTaskReady(RunnerProcess& process, const std::string& stage,
                                          const CancelToken& cancel);
// Calls an entry of the case table and returns the call's status.
[[nodiscard]] absl::StatusOr<int32_t> CallTask(RunnerProcess& process, uint32_t index,
                                               const std::string& stage, const CancelToken& cancel);

// A tensor at an offset of a file, with elements of a type.
runner::TensorRecord RecordAt(int64_t offset, const TensorLayout& layout, DataType dtype);
// Places tensors one after the other from the start of a file. `end`: raised to their end.
std::vector<runner::TensorRecord> ArrangeTensors(const std::vector<TensorLayout>& layouts,
                                                 int64_t& end);
// A tensor of bytes.
runner::TensorRecord BytesRecord(int64_t offset, int64_t bytes);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CPU_PYTHON_TASK_PROCESS_H_
