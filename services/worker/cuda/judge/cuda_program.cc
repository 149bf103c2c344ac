#include "services/worker/cuda/judge/cuda_program.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <iterator>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "services/worker/core/launch_plan.h"
#include "services/worker/core/tensor.h"
#include "services/worker/cuda/judge/expected_output.h"
#include "services/worker/cuda/judge/python_task.h"

namespace kernelcast::worker {
namespace {

using cuda_runner::Argument;
using cuda_runner::Program;
using cuda_runner::ProgramLaunch;

// Marks the address of a copy until the end of the workspace is known.
constexpr uint32_t kCopiedBytes = 0;

// Evaluates the launches at a shape. `place` says where a tensor of the problem is.
absl::StatusOr<PlannedProgram> PlanAt(const Problem& problem, const CudaProgram& program,
                                      const AxisValues& shape,
                                      const std::function<Argument(size_t tensor)>& place) {
  const std::vector<std::string> names = program.KernelNames();
  KC_ASSIGN_OR_RETURN(
      const LaunchPlan plan,
      PlanLaunches(problem, program.launches, program.workspace_bytes, program.tunables, shape));
  PlannedProgram made;
  for (const PlannedLaunch& launch : plan.launches) {
    ProgramLaunch& call = made.program.launches.emplace_back();
    call.kernel =
        static_cast<uint32_t>(std::find(names.begin(), names.end(), launch.kernel) - names.begin());
    std::copy(std::begin(launch.grid), std::end(launch.grid), call.grid);
    std::copy(std::begin(launch.block), std::end(launch.block), call.block);
    if (launch.cluster[0] * launch.cluster[1] * launch.cluster[2] > 1) {
      std::copy(std::begin(launch.cluster), std::end(launch.cluster), call.cluster);
    }
    call.shared_memory_bytes = launch.shared_memory_bytes;
    for (const KernelArgument& argument : launch.arguments) {
      Argument& passed = call.arguments.emplace_back();
      passed.bytes = static_cast<uint32_t>(argument.bytes);
      switch (argument.kind) {
        case KernelArgument::Kind::kTensor:
          passed = place(static_cast<size_t>(argument.tensor));
          break;
        case KernelArgument::Kind::kWorkspace:
          passed.arena = CudaCasePlan::kScratch;
          passed.value = static_cast<uint64_t>(argument.offset);
          break;
        case KernelArgument::Kind::kScalar:
          std::memcpy(&passed.value, argument.bits.data(), argument.bytes);
          break;
      }
    }
  }
  made.workspace_bytes = AlignTensor(static_cast<uint64_t>(plan.workspace_bytes));
  return made;
}

}  // namespace

std::vector<std::string> CudaProgram::KernelNames() const {
  std::vector<std::string> names;
  for (const Launch& launch : launches) {
    if (std::find(names.begin(), names.end(), launch.kernel) == names.end()) {
      names.push_back(launch.kernel);
    }
  }
  return names;
}

absl::StatusOr<PlannedProgram> PlanProgram(const Problem& problem, const CudaProgram& program,
                                           const CasePlan::Case& at, const OutputPlaces& outputs) {
  return PlanAt(problem, program, at.spec.axes, [&](size_t tensor) -> Argument {
    if (tensor < at.inputs.size()) return {CudaCasePlan::kInputs, 8, at.inputs[tensor].offset};
    return {outputs.arena, 8, outputs.places[tensor - at.inputs.size()].offset};
  });
}

absl::StatusOr<PlannedProgram> PlanTaskProgram(const PythonTaskPrograms& task,
                                               const CudaProgram& program, const CasePlan::Case& at,
                                               const OutputPlaces& outputs) {
  using Kind = TaskLaunches::Tensor::Kind;
  const TaskLaunches& launches = task.launches();
  const std::vector<size_t>& written = task.cases()[at.task_case].written;
  // Copies lie after the workspace, whose size is known later.
  std::map<size_t, uint64_t> copies;
  uint64_t copied_bytes = 0;
  for (const size_t input : written) {
    copies[input] = copied_bytes;
    copied_bytes += AlignTensor(at.inputs[input].bytes);
  }
  const auto place = [&](size_t tensor) -> Argument {
    const TaskLaunches::Tensor& named = launches.tensors[tensor];
    const size_t index = named.index[at.task_case];
    if (named.kind == Kind::kWeight)
      return {CudaCasePlan::kWeights, 8, task.weights()[index].offset};
    if (named.kind == Kind::kOutput) return {outputs.arena, 8, outputs.places[index].offset};
    const auto copy = copies.find(index);
    if (copy == copies.end()) return {CudaCasePlan::kInputs, 8, at.inputs[index].offset};
    return {CudaCasePlan::kScratch, kCopiedBytes, copy->second};
  };
  KC_ASSIGN_OR_RETURN(PlannedProgram made,
                      PlanAt(launches.problem, program, launches.sizes[at.task_case], place));
  for (ProgramLaunch& launch : made.program.launches) {
    for (Argument& argument : launch.arguments) {
      if (argument.bytes != kCopiedBytes) continue;
      argument.bytes = 8;
      argument.value += made.workspace_bytes;
    }
  }
  std::vector<ProgramLaunch> first;
  for (const auto& [input, offset] : copies) {
    ProgramLaunch& copy = first.emplace_back();
    copy.kernel = cuda_runner::kCopy;
    copy.arguments = {{CudaCasePlan::kScratch, 8, made.workspace_bytes + offset},
                      {CudaCasePlan::kInputs, 8, at.inputs[input].offset},
                      {cuda_runner::kLiteral, 8, at.inputs[input].bytes}};
  }
  made.program.launches.insert(made.program.launches.begin(), first.begin(), first.end());
  if (made.program.launches.size() > cuda_runner::kMaxLaunches) {
    return absl::InvalidArgumentError(
        absl::StrCat("launches: ", made.program.launches.size(), " with the copies of inputs that ",
                     "the task changes; at most ", cuda_runner::kMaxLaunches, " are allowed"));
  }
  made.workspace_bytes += copied_bytes;
  return made;
}

absl::StatusOr<Program> PlanCall(const CasePlan::Case& at, const OutputPlaces& outputs,
                                 bool expected) {
  Program call;
  call.task_case = static_cast<uint32_t>(at.task_case);
  const std::vector<TensorLayout>& inputs = at.input_layouts;
  for (size_t i = 0; i < inputs.size(); ++i) {
    KC_ASSIGN_OR_RETURN(call.inputs.emplace_back(),
                        TensorRecordOf(inputs[i], CudaCasePlan::kInputs, at.inputs[i].offset));
  }
  std::vector<TensorLayout> layouts = at.output_layouts;
  for (size_t i = 0; i < layouts.size(); ++i) {
    if (expected) layouts[i].dtype = KeptType(layouts[i].dtype, /*python_task=*/true);
    KC_ASSIGN_OR_RETURN(call.outputs.emplace_back(),
                        TensorRecordOf(layouts[i], outputs.arena, outputs.places[i].offset));
  }
  return call;
}

}  // namespace kernelcast::worker
