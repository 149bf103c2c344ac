#include "services/worker/cuda/judge/cuda_program.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "common/base/status.h"
#include "services/worker/core/launch_plan.h"
#include "services/worker/core/tensor.h"
#include "services/worker/cuda/judge/python_task.h"

namespace kernelcast::worker {
namespace {

using cuda_runner::Argument;
using cuda_runner::Program;
using cuda_runner::ProgramLaunch;

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
  const std::vector<std::string> names = program.KernelNames();
  KC_ASSIGN_OR_RETURN(
      const LaunchPlan plan,
      PlanLaunches(problem, program.launches, program.workspace_bytes, program.tunables, at.axes));
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
        case KernelArgument::Kind::kTensor: {
          const auto tensor = static_cast<size_t>(argument.tensor);
          const bool is_input = tensor < at.inputs.size();
          passed.arena = is_input ? CasePlan::kInputs : outputs.arena;
          passed.value = is_input ? at.inputs[tensor].offset
                                  : outputs.places[tensor - at.inputs.size()].offset;
          break;
        }
        case KernelArgument::Kind::kWorkspace:
          passed.arena = CasePlan::kScratch;
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

absl::StatusOr<Program> PlanCall(const CallTensors& tensors, const CasePlan::Case& at,
                                 const OutputPlaces& outputs, bool expected) {
  Program call;
  call.task_case = static_cast<uint32_t>(at.task_case);
  KC_ASSIGN_OR_RETURN(const auto inputs, tensors.Inputs(at.axes));
  for (size_t i = 0; i < inputs.size(); ++i) {
    KC_ASSIGN_OR_RETURN(call.inputs.emplace_back(),
                        TensorRecordOf(inputs[i], CasePlan::kInputs, at.inputs[i].offset));
  }
  KC_ASSIGN_OR_RETURN(auto layouts, tensors.Outputs(at.axes));
  for (size_t i = 0; i < layouts.size(); ++i) {
    if (expected) layouts[i].dtype = KeptType(layouts[i].dtype, /*python_task=*/true);
    KC_ASSIGN_OR_RETURN(call.outputs.emplace_back(),
                        TensorRecordOf(layouts[i], outputs.arena, outputs.places[i].offset));
  }
  return call;
}

}  // namespace kernelcast::worker
