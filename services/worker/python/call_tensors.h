#ifndef KERNELCAST_SERVICES_WORKER_PYTHON_CALL_TENSORS_H_
#define KERNELCAST_SERVICES_WORKER_PYTHON_CALL_TENSORS_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/domain/problem.h"
#include "services/worker/core/inputs.h"
#include "services/worker/core/tensor.h"
#include "services/worker/python/task_programs.h"

namespace kernelcast::worker {

// Layouts, names and tolerances of the tensors of a call, which may differ by case: those that a
// Python task's own code described, or those of the problem's expressions. `problem` and `task`
// must outlive it. `task` is null for problems that are no Python tasks; a task has a case with
// these axes.
class CallTensors {
 public:
  CallTensors(const Problem& problem, const PythonTaskPrograms* task)
      : problem_(problem), task_(task) {}

  [[nodiscard]] absl::StatusOr<std::vector<TensorLayout>> Inputs(const AxisValues& axes) const;
  [[nodiscard]] absl::StatusOr<std::vector<TensorLayout>> Outputs(const AxisValues& axes) const;
  [[nodiscard]] absl::StatusOr<Tolerance> ToleranceOf(size_t output, const AxisValues& axes) const;

  std::string OutputName(size_t output, const AxisValues& axes) const;

  // What rounding may change in an output: see Unexplained. `tolerance` is that of the output.
  std::optional<double> NoiseOf(size_t output, const AxisValues& axes,
                                const Tolerance& tolerance) const;

  // Bytes that a call moves and FLOPs that it takes: those that the problem declares, or the least
  // bytes of any right kernel of a task and the FLOPs of its reference. 0: not known.
  [[nodiscard]] absl::StatusOr<double> Bytes(const AxisValues& axes) const;
  [[nodiscard]] absl::StatusOr<double> Flops(const AxisValues& axes) const;

  // The number of the task's case; 0 if there is no task.
  size_t TaskCaseOf(const AxisValues& axes) const;

 private:
  const Problem& problem_;
  const PythonTaskPrograms* const task_;
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_PYTHON_CALL_TENSORS_H_
