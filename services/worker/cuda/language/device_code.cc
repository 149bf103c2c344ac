#include "services/worker/cuda/language/device_code.h"

#include <utility>
#include <vector>

#include "common/base/status.h"
#include "services/worker/core/launch_plan.h"
#include "services/worker/cuda/compiler/cubin.h"
#include "services/worker/cuda/compiler/kernel_parameters.h"
#include "services/worker/cuda/compiler/simulation_plan.h"

namespace kernelcast::worker {

CompileResult Refusal(std::string log) {
  CompileResult refused;
  refused.result = CompileError{CompileStage::kAdmission, std::move(log)};
  return refused;
}

std::optional<std::string> UnplannedLaunches(const CompileJob& job) {
  const absl::Status plans = CheckPlans(job.problem, job.target, job.candidate.launches,
                                        job.candidate.workspace_bytes, job.candidate.tunables);
  if (plans.ok()) return std::nullopt;
  return std::string(plans.message());
}

absl::StatusOr<std::optional<std::string>> CheckAndSimulate(const CompileJob& job,
                                                            const SimulatedProgram& program,
                                                            CudaCompiler& simulator,
                                                            const CancelToken& cancel,
                                                            CompileSuccess& success) {
  const auto& [problem, target, candidate, gpu] = job;
  KC_ASSIGN_OR_RETURN(const LaunchPlan plan,
                      PlanLaunches(problem, candidate.launches, candidate.workspace_bytes,
                                   candidate.tunables, target.bench_shapes.front()));
  if (auto wrong = CheckArguments(candidate.launches, plan, ReadSignatures(success.ptx))) {
    return wrong;
  }
  KC_ASSIGN_OR_RETURN(const Cubin cubin, ReadCubin(success.artifact.content));
  const auto plan_at = [&](const AxisValues& shape) {
    return PlanSimulation(problem, candidate.launches, candidate.workspace_bytes,
                          candidate.tunables, shape, cubin);
  };
  std::vector<SimulationPlan> plans;
  for (const AxisValues& shape : target.bench_shapes) {
    KC_ASSIGN_OR_RETURN(SimulationPlan timed, plan_at(shape));
    plans.push_back(std::move(timed));
  }
  std::vector<SimulationPlan> checks;
  for (const AxisValues& shape : ShapesToCheck(problem, target)) {
    absl::StatusOr<SimulationPlan> checked = plan_at(shape);
    if (checked.ok()) checks.push_back(*std::move(checked));
  }
  KC_ASSIGN_OR_RETURN(
      success.facts.simulations,
      simulator.Simulate(program, std::move(plans), std::move(checks), gpu.name, cancel));
  return std::nullopt;
}

}  // namespace kernelcast::worker
