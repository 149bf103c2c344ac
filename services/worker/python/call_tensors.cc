#include "services/worker/python/call_tensors.h"

namespace kernelcast::worker {

absl::StatusOr<std::vector<TensorLayout>> CallTensors::Inputs(const AxisValues& axes) const {
  if (task_ != nullptr) return task_->cases()[TaskCaseOf(axes)].inputs;
  return Layouts(problem_.inputs, axes);
}

absl::StatusOr<std::vector<TensorLayout>> CallTensors::Outputs(const AxisValues& axes) const {
  if (task_ != nullptr) return task_->cases()[TaskCaseOf(axes)].outputs;
  return Layouts(problem_.outputs, axes);
}

absl::StatusOr<Tolerance> CallTensors::ToleranceOf(size_t output, const AxisValues& axes) const {
  if (task_ != nullptr) return task_->cases()[TaskCaseOf(axes)].tolerances[output];
  return ToleranceAt(problem_.outputs[output], axes);
}

size_t CallTensors::TaskCaseOf(const AxisValues& axes) const {
  return task_ == nullptr ? 0 : task_->IndexOf(axes);
}

}  // namespace kernelcast::worker
