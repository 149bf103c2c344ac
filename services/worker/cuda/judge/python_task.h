#ifndef KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_PYTHON_TASK_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_PYTHON_TASK_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/domain/problem.h"
#include "services/worker/core/cancel.h"
#include "services/worker/core/inputs.h"
#include "services/worker/cuda/judge/cuda_case_plan.h"
#include "services/worker/cuda/judge/device.h"
#include "services/worker/cuda/judge/runner_client.h"
#include "services/worker/python/task_programs.h"

namespace kernelcast::worker {

// Status for an answer of a process that runs a task's own code.
[[nodiscard]] absl::Status TaskStatus(const CudaRunner& runner, const CudaRunner::Answer& answer,
                                      const std::string& stage, const CancelToken& cancel);

// The record of a tensor at `offset` of an arena. INVALID_ARGUMENT: too many dimensions.
[[nodiscard]] absl::StatusOr<cuda_runner::TensorRecord> TensorRecordOf(const TensorLayout& layout,
                                                                       uint32_t arena,
                                                                       uint64_t offset);

// Whether a program's text may ask for CUDA streams.
bool NamesStreams(const std::string& program);

// Options for a process whose calls of this program are timed: it may have several streams if the
// program may use them.
[[nodiscard]] CudaRunnerOptions OptionsFor(const std::string& program, CudaRunnerOptions python);

// Whether the cause of an error is too little memory on the device: RESOURCE_EXHAUSTED, or a
// program of a task that failed for that reason.
bool LacksDeviceMemory(const absl::Status& status);

// Starts a process with a program of the task. FAILED_PRECONDITION: the program fails; the message
// has what it printed. `stage` names it.
[[nodiscard]] absl::Status LoadTaskProgram(CudaRunner& runner, const std::string& program,
                                           const std::string& stage, const CancelToken& cancel);

// Runs the task once in a process of its own to find out what its inputs and outputs are, also in
// secret cases that it does not list, where its format allows such. Errors are those of
// PythonTaskPrograms::Read and LoadTaskProgram.
[[nodiscard]] absl::StatusOr<PythonTaskPrograms> DescribeTask(const Problem& problem,
                                                              CudaDevice& device,
                                                              const CudaRunnerOptions& python,
                                                              const CancelToken& cancel);

// Writes the parameters and buffers of the task's reference to an arena, in a process of its own.
[[nodiscard]] absl::Status WriteTaskWeights(const PythonTaskPrograms& task,
                                            const SharedArena& arena,
                                            const CudaRunnerOptions& python,
                                            const CancelToken& cancel);

// A process that draws inputs by the task's own code. No code of a candidate runs in it. Not
// thread-safe.
class CudaTaskInputs {
 public:
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<CudaTaskInputs>> Start(
      const PythonTaskPrograms& task, CudaDevice& device, const CudaRunnerOptions& python,
      const CancelToken& cancel);

  // Draws a set of inputs of a case. Draws with other seeds differ, where the task allows that.
  [[nodiscard]] absl::Status Draw(size_t task_case, uint64_t seed, const CancelToken& cancel);
  // Enqueues a copy of one of the tensors that were drawn last.
  [[nodiscard]] absl::Status CopyTo(size_t tensor, CUdeviceptr to);
  // DrawFlag, of the case that was drawn last.
  int64_t flags() const { return flags_; }

 private:
  explicit CudaTaskInputs(CudaDevice& device) : device_(device) {}

  CudaDevice& device_;
  SharedArena made_;                                  // the seed, then the tensors
  std::vector<std::vector<CasePlan::Place>> places_;  // by case, in made_
  size_t drawn_ = 0;
  int64_t flags_ = 0;
  std::unique_ptr<CudaRunner> runner_;
};

// A process in which the task's own code decides whether outputs are right, from copies of them. No
// code of a candidate runs in it. Not thread-safe.
class CudaTaskChecker {
 public:
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<CudaTaskChecker>> Start(
      const PythonTaskPrograms& task, CudaDevice& device, const CudaRunnerOptions& python,
      const CancelToken& cancel);

  // Why the outputs are wrong, in the task's words; nothing if they are right. `tensors` are the
  // addresses of the inputs and then the outputs of a call. FAILED_PRECONDITION: the task's code
  // fails.
  [[nodiscard]] absl::StatusOr<std::optional<std::string>> Check(
      size_t task_case, std::span<const CUdeviceptr> tensors, const CancelToken& cancel);

  uint64_t bytes() const { return copies_.mapped_bytes(); }

 private:
  explicit CudaTaskChecker(CudaDevice& device) : device_(device) {}

  CudaDevice& device_;
  SharedArena copies_;                                // of the tensors of a call, after the message
  std::vector<std::vector<CasePlan::Place>> places_;  // by case
  std::unique_ptr<CudaRunner> runner_;
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_PYTHON_TASK_H_
