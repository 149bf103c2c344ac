#include "services/worker/cuda/compiler/simulation_plan.h"

#include <algorithm>
#include <cstring>
#include <variant>

#include "common/base/status.h"
#include "services/worker/core/inputs.h"
#include "services/worker/core/launch_plan.h"

namespace kernelcast::worker {
namespace {

ptx::ElementType TypeOf(DataType dtype) {
  switch (dtype) {
    case DataType::kFloat64: return ptx::ElementType::kFloat64;
    case DataType::kFloat32: return ptx::ElementType::kFloat32;
    case DataType::kFloat16: return ptx::ElementType::kFloat16;
    case DataType::kBfloat16: return ptx::ElementType::kBfloat16;
    case DataType::kFloat8E4m3: return ptx::ElementType::kFloat8E4m3;
    case DataType::kFloat8E5m2: return ptx::ElementType::kFloat8E5m2;
    case DataType::kInt64: return ptx::ElementType::kInt64;
    case DataType::kInt32: return ptx::ElementType::kInt32;
    case DataType::kInt8: return ptx::ElementType::kInt8;
    case DataType::kUint8: return ptx::ElementType::kUint8;
  }
  return ptx::ElementType::kFloat32;
}

absl::Status SetValues(const InitDistribution& init, const Variables& variables,
                       ptx::BufferSpec& buffer) {
  using Values = ptx::BufferSpec::Values;
  if (const auto* normal = std::get_if<Normal>(&init)) {
    buffer.values = Values::kNormal;
    buffer.first = normal->mean;
    buffer.second = normal->stddev;
  } else if (const auto* uniform = std::get_if<Uniform>(&init)) {
    buffer.values = Values::kUniform;
    buffer.first = uniform->low;
    buffer.second = uniform->high;
  } else if (const auto* integers = std::get_if<Integers>(&init)) {
    constexpr int64_t kMost = int64_t{1} << 53;
    buffer.values = Values::kIntegers;
    KC_ASSIGN_OR_RETURN(const int64_t low, integers->low.EvaluateInteger(variables, -kMost, kMost));
    KC_ASSIGN_OR_RETURN(const int64_t high,
                        integers->high.EvaluateInteger(variables, -kMost, kMost));
    buffer.first = static_cast<double>(low);
    buffer.second = static_cast<double>(high);
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
  const Variables variables(axes.begin(), axes.end());
  for (const auto* tensors : {&problem.inputs, &problem.outputs}) {
    KC_ASSIGN_OR_RETURN(const std::vector<TensorLayout> layouts, Layouts(*tensors, axes));
    for (size_t k = 0; k < tensors->size(); ++k) {
      ptx::BufferSpec buffer;
      buffer.type = TypeOf((*tensors)[k].dtype);
      buffer.bytes = layouts[k].bytes();
      if (tensors == &problem.inputs) {
        KC_RETURN_IF_ERROR(SetValues((*tensors)[k].init, variables, buffer));
      }
      simulation.buffers.push_back(buffer);
    }
  }
  const auto workspace = static_cast<int>(simulation.buffers.size());
  if (plan.workspace_bytes > 0) {
    simulation.buffers.push_back({.bytes = plan.workspace_bytes});
  }
  for (const PlannedLaunch& planned : plan.launches) {
    ptx::LaunchSpec launch;
    launch.kernel = planned.kernel;
    std::copy(std::begin(planned.grid), std::end(planned.grid), launch.grid.begin());
    std::copy(std::begin(planned.block), std::end(planned.block), launch.block.begin());
    launch.dynamic_shared_bytes = planned.shared_memory_bytes;
    for (const KernelArgument& argument : planned.arguments) {
      ptx::LaunchArgument to;
      to.bytes = static_cast<int>(argument.bytes);
      to.is_buffer = argument.kind != KernelArgument::Kind::kScalar;
      if (to.is_buffer) {
        to.buffer = argument.kind == KernelArgument::Kind::kTensor ? argument.tensor : workspace;
      } else {
        std::memcpy(&to.bits, argument.bits.data(), argument.bytes);
      }
      launch.arguments.push_back(to);
    }
    ptx::LaunchResources resources;
    resources.shared_bytes = launch.dynamic_shared_bytes;
    for (const CubinKernel& kernel : cubin.kernels) {
      if (kernel.name != launch.kernel) continue;
      resources.registers = kernel.registers;
      resources.shared_bytes += kernel.shared_bytes;
    }
    simulation.launches.push_back(std::move(launch));
    simulation.resources.push_back(resources);
  }
  return simulation;
}

}  // namespace kernelcast::worker
