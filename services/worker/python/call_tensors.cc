#include "services/worker/python/call_tensors.h"

namespace kernelcast::worker {
namespace {

absl::StatusOr<double> Amount(const std::optional<Expression>& declared, const AxisValues& axes) {
  if (!declared) return 0.0;
  return declared->Evaluate(ToVariables(axes));
}

}  // namespace

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

std::string CallTensors::OutputName(size_t output, const AxisValues& axes) const {
  if (task_ != nullptr) return task_->cases()[TaskCaseOf(axes)].output_names[output];
  return problem_.outputs[output].name;
}

std::optional<double> CallTensors::NoiseOf(size_t output, const AxisValues& axes,
                                           const Tolerance& tolerance) const {
  if (task_ != nullptr) return task_->cases()[TaskCaseOf(axes)].noise[output];
  return tolerance.normwise > 0 ? tolerance.normwise : tolerance.rtol;
}

absl::StatusOr<double> CallTensors::Bytes(const AxisValues& axes) const {
  if (task_ != nullptr) return task_->cases()[TaskCaseOf(axes)].bytes;
  return Amount(problem_.bytes, axes);
}

absl::StatusOr<double> CallTensors::Flops(const AxisValues& axes) const {
  if (task_ != nullptr) return task_->cases()[TaskCaseOf(axes)].flops;
  return Amount(problem_.flops, axes);
}

size_t CallTensors::TaskCaseOf(const AxisValues& axes) const {
  return task_ == nullptr ? 0 : task_->IndexOf(axes);
}

}  // namespace kernelcast::worker
