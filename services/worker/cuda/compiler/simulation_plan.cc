#include "services/worker/cuda/compiler/simulation_plan.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <variant>

#include "common/base/status.h"
#include "services/worker/core/inputs.h"
#include "services/worker/core/launch_plan.h"
#include "services/worker/core/random.h"
#include "services/worker/core/tensor.h"
#include "services/worker/core/verification.h"

namespace kernelcast::worker {
namespace {

virtual_gpu::ElementType TypeOf(DataType dtype) {
  switch (dtype) {
    case DataType::kFloat64: return virtual_gpu::ElementType::kFloat64;
    case DataType::kFloat32: return virtual_gpu::ElementType::kFloat32;
    case DataType::kFloat16: return virtual_gpu::ElementType::kFloat16;
    case DataType::kBfloat16: return virtual_gpu::ElementType::kBfloat16;
    case DataType::kFloat8E4m3: return virtual_gpu::ElementType::kFloat8E4m3;
    case DataType::kFloat8E5m2: return virtual_gpu::ElementType::kFloat8E5m2;
    case DataType::kInt64: return virtual_gpu::ElementType::kInt64;
    case DataType::kInt32: return virtual_gpu::ElementType::kInt32;
    case DataType::kInt8: return virtual_gpu::ElementType::kInt8;
    case DataType::kUint8: return virtual_gpu::ElementType::kUint8;
  }
  return virtual_gpu::ElementType::kFloat32;
}

// The virtual GPU draws values instead of reading a file: from the range of its integers, or with
// the mean and the standard deviation of its real numbers.
void SetFileValues(const FileValues& file, DataType dtype, virtual_gpu::BufferSpec& buffer) {
  const std::vector<double> values = Elements(dtype, std::as_bytes(std::span(*file.elements)));
  const auto count = static_cast<double>(values.size());
  double low = HUGE_VAL;
  double high = -HUGE_VAL;
  double sum = 0;
  double squares = 0;
  for (const double value : values) {
    low = std::min(low, value);
    high = std::max(high, value);
    sum += value;
    squares += value * value;
  }
  const double mean = sum / count;
  buffer.values = IsFloat(dtype) ? virtual_gpu::BufferSpec::Values::kNormal
                                 : virtual_gpu::BufferSpec::Values::kIntegers;
  buffer.first = IsFloat(dtype) ? mean : low;
  buffer.second = IsFloat(dtype) ? std::sqrt(std::max(0.0, squares / count - mean * mean)) : high;
}

absl::Status SetValues(const TensorSpec& tensor, const Variables& variables,
                       virtual_gpu::BufferSpec& buffer) {
  const InitDistribution& init = tensor.init;
  using Values = virtual_gpu::BufferSpec::Values;
  constexpr int64_t kMost = int64_t{1} << 53;
  if (const auto* normal = std::get_if<Normal>(&init)) {
    buffer.values = Values::kNormal;
    buffer.first = normal->mean;
    buffer.second = normal->stddev;
  } else if (const auto* uniform = std::get_if<Uniform>(&init)) {
    buffer.values = Values::kUniform;
    buffer.first = uniform->low;
    buffer.second = uniform->high;
  } else if (const auto* integers = std::get_if<Integers>(&init)) {
    buffer.values = Values::kIntegers;
    KC_ASSIGN_OR_RETURN(const int64_t low, integers->low.EvaluateInteger(variables, -kMost, kMost));
    KC_ASSIGN_OR_RETURN(const int64_t high,
                        integers->high.EvaluateInteger(variables, -kMost, kMost));
    buffer.first = static_cast<double>(low);
    buffer.second = static_cast<double>(high);
  } else if (const auto* zipf = std::get_if<Zipf>(&init)) {
    // The range matters for addresses; the frequency of each value does not matter to most kernels.
    buffer.values = Values::kIntegers;
    KC_ASSIGN_OR_RETURN(const int64_t low, zipf->low.EvaluateInteger(variables, -kMost, kMost));
    KC_ASSIGN_OR_RETURN(const int64_t high, zipf->high.EvaluateInteger(variables, -kMost, kMost));
    buffer.first = static_cast<double>(low);
    buffer.second = static_cast<double>(high);
  } else if (const auto* log_normal = std::get_if<LogNormal>(&init)) {
    // Most values lie within one standard deviation of the median.
    buffer.values = Values::kUniform;
    buffer.first = std::exp(log_normal->mean - log_normal->stddev);
    buffer.second = std::exp(log_normal->mean + log_normal->stddev);
  } else if (const auto* power_law = std::get_if<PowerLaw>(&init)) {
    buffer.values = Values::kUniform;
    buffer.first = power_law->low;
    buffer.second = power_law->high;
  } else if (const auto* file = std::get_if<FileValues>(&init)) {
    SetFileValues(*file, tensor.dtype, buffer);
  } else {
    buffer.values = Values::kConstant;
    buffer.first = std::get<Constant>(init).value;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SimulationPlan> PlanSimulation(const Problem& problem,
                                              const std::vector<Launch>& launches,
                                              const std::string& workspace_bytes,
                                              const std::vector<Tunable>& tunables,
                                              const AxisValues& axes, const Cubin& cubin) {
  KC_ASSIGN_OR_RETURN(const LaunchPlan plan,
                      PlanLaunches(problem, launches, workspace_bytes, tunables, axes));
  SimulationPlan simulation;
  simulation.shape = ShapeText(axes);
  const Variables variables(axes.begin(), axes.end());
  for (const auto* tensors : {&problem.inputs, &problem.outputs}) {
    KC_ASSIGN_OR_RETURN(const std::vector<TensorLayout> layouts, Layouts(*tensors, axes));
    for (size_t k = 0; k < tensors->size(); ++k) {
      virtual_gpu::BufferSpec buffer;
      buffer.type = TypeOf((*tensors)[k].dtype);
      buffer.bytes = layouts[k].bytes();
      buffer.name = (*tensors)[k].name;
      buffer.initialised = tensors == &problem.inputs;
      buffer.is_output = !buffer.initialised;
      if (tensors == &problem.inputs) {
        KC_RETURN_IF_ERROR(SetValues((*tensors)[k], variables, buffer));
      }
      simulation.buffers.push_back(buffer);
    }
  }
  const auto workspace = static_cast<int>(simulation.buffers.size());
  if (plan.workspace_bytes > 0) {
    simulation.buffers.push_back(
        {.bytes = plan.workspace_bytes, .initialised = false, .name = "the workspace"});
  }
  for (const PlannedLaunch& planned : plan.launches) {
    virtual_gpu::LaunchSpec launch;
    launch.kernel = planned.kernel;
    std::copy(std::begin(planned.grid), std::end(planned.grid), launch.grid.begin());
    std::copy(std::begin(planned.block), std::end(planned.block), launch.block.begin());
    launch.dynamic_shared_bytes = planned.shared_memory_bytes;
    for (const KernelArgument& argument : planned.arguments) {
      virtual_gpu::LaunchArgument to;
      to.bytes = static_cast<int>(argument.bytes);
      to.is_buffer = argument.kind != KernelArgument::Kind::kScalar;
      if (to.is_buffer) {
        to.buffer = argument.kind == KernelArgument::Kind::kTensor ? argument.tensor : workspace;
        to.bits = static_cast<uint64_t>(argument.offset);
      } else {
        std::memcpy(&to.bits, argument.bits.data(), argument.bytes);
      }
      launch.arguments.push_back(to);
    }
    virtual_gpu::LaunchResources resources;
    resources.shared_bytes = launch.dynamic_shared_bytes;
    for (const CubinKernel& kernel : cubin.kernels) {
      if (kernel.name != launch.kernel) continue;
      resources.registers = kernel.registers;
      resources.shared_bytes += kernel.shared_bytes;
      resources.stack_bytes = kernel.stack_bytes;
    }
    simulation.launches.push_back(std::move(launch));
    simulation.resources.push_back(resources);
  }
  return simulation;
}

// The shapes are drawn at most this far above the smallest values of the axes. Small ones are
// executed completely; larger ones need several blocks where small ones need one.
constexpr int64_t kDrawnAbove[] = {100, 400, 1600};

std::vector<AxisValues> ShapesToCheck(const Problem& problem, const ProblemTarget& target) {
  // The virtual GPU does not read files, so indices derived from the drawn values could be invalid.
  for (const TensorSpec& input : problem.inputs) {
    if (std::holds_alternative<FileValues>(input.init)) return {};
  }
  std::vector<AxisValues> shapes = target.check_shapes;
  // Fixed seed: findings must be reproducible.
  Random random(1);
  for (const int64_t most : kDrawnAbove) {
    // The sizes of a task depend on each other.
    if (problem.task) break;
    AxisValues& shape = shapes.emplace_back();
    for (const Axis& axis : problem.axes) {
      const int64_t low = (axis.held_out_low + axis.multiple_of - 1) / axis.multiple_of;
      const int64_t high = std::max(low, axis.held_out_high / axis.multiple_of);
      const int64_t span = std::min<int64_t>(high - low, most / axis.multiple_of);
      const auto above = static_cast<int64_t>(random.Below(static_cast<uint64_t>(span) + 1));
      shape[axis.name] = (low + above) * axis.multiple_of;
    }
  }
  const auto size = [&](const AxisValues& shape) {
    double bytes = 0;
    for (const auto* tensors : {&problem.inputs, &problem.outputs}) {
      const auto layouts = Layouts(*tensors, shape);
      if (!layouts.ok()) return 1e300;
      for (const TensorLayout& layout : *layouts) bytes += static_cast<double>(layout.bytes());
    }
    return bytes;
  };
  std::stable_sort(shapes.begin(), shapes.end(),
                   [&](const AxisValues& a, const AxisValues& b) { return size(a) < size(b); });
  shapes.erase(std::unique(shapes.begin(), shapes.end()), shapes.end());
  if (shapes.size() > kMaxCheckedShapes) shapes.resize(kMaxCheckedShapes);
  return shapes;
}

}  // namespace kernelcast::worker
